#!/bin/sh
# Checks the programs that building and testing need:
#
#     scripts/need.sh rust        cargo, and a Rust that Cargo.toml accepts
#     scripts/need.sh cc          a C compiler, which links
#     scripts/need.sh libclang    libclang and clang's own headers, which bindgen reads C with
#     scripts/need.sh redis       a Redis (or Valkey) server, new enough to load the module
#     scripts/need.sh bash        bash, which the larger scripts are written in
#
# The script installs missing programs with the system's package manager, as root or with a sudo that needs no
# password. Otherwise it says what to install, and fails. It never installs Rust, because there are several ways to
# get it. If nothing is missing, it does nothing. To check without installing: NEED_INSTALL=no scripts/need.sh ...
set -eu

# The first version with RedisModule_SetAbsExpire, which sets an absolute TTL.
oldest_redis=7.0.5

say() { printf '%s\n' "need: $*" >&2; }

# --- redis -----------------------------------------------------------------------------------------------

redis_server() {
    if [ -n "${REDIS_SERVER:-}" ]; then
        command -v "$REDIS_SERVER"
    else
        command -v redis-server || command -v valkey-server
    fi
}

have_redis() { redis_server >/dev/null 2>&1; }

# "Redis server v=7.0.15 sha=..." -> 7.0.15
redis_version() { "$(redis_server)" --version | sed -n 's/.* v=\([0-9.]*\).*/\1/p'; }

# version_at_least 7.0.15 7.0.5
version_at_least() {
    lower=$(printf '%s\n%s\n' "$1" "$2" | sort -t. -k1,1n -k2,2n -k3,3n | head -n 1)
    [ "$lower" = "$2" ]
}

# --- rust --------------------------------------------------------------------------------------------------

# The oldest Rust that builds the module. If a dependency needs a later Rust, `cargo` says so.
oldest_rust=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$(dirname "$0")/../Cargo.toml" | head -n 1)

# "cargo 1.96.0 (3a2b..." -> 1.96.0; nothing if there is no cargo, or rustup has no toolchain
rust_version() { "${CARGO:-cargo}" --version 2>/dev/null | sed -n 's/^cargo \([0-9.]*\).*/\1/p'; }

# If Rust is missing or too old, says how to install Rust on this system, and returns an error.
need_rust() {
    version=$(rust_version)
    if [ -n "$version" ]; then
        ! version_at_least "$version" "$oldest_rust" || return 0
        say "cargo is version $version; Zeitset needs Rust $oldest_rust or later."
    else
        say "cargo is missing; Zeitset needs Rust $oldest_rust or later. (As root, build as a user first: make; then: make install)"
    fi
    find_manager
    case $manager in
        apt-get) say "Debian 12 and 13: apt-get install cargo-web, in Debian 12 from the suite of security updates (bookworm-security). Ubuntu 24.04: apt-get install rustup, then rustup default stable" ;;
        dnf) say "Fedora: dnf install cargo" ;;
        apk) say "Alpine 3.23: apk add cargo" ;;
        pacman) say "Arch: pacman -S rust" ;;
        brew) say "macOS: brew install rust" ;;
    esac
    say "Everywhere: https://rustup.rs"
    return 1
}

# --- cc, bash --------------------------------------------------------------------------------------------

have_cc() { command -v "${CC:-cc}" >/dev/null 2>&1; }

have_bash() { command -v bash >/dev/null 2>&1; }

# --- libclang --------------------------------------------------------------------------------------------

# Directories in which bindgen searches for the library: the important directories of the clang-sys crate.
libclang_dirs() {
    [ -z "${LIBCLANG_PATH:-}" ] || printf '%s\n' "$LIBCLANG_PATH"
    if command -v llvm-config >/dev/null 2>&1; then llvm-config --libdir; fi
    printf '%s\n' /usr/lib/llvm*/lib /usr/lib64/llvm*/lib /usr/lib/llvm/*/lib* /usr/lib /usr/lib64 \
        /usr/lib/*-linux-gnu* /usr/local/lib /usr/local/lib64 \
        /opt/homebrew/opt/llvm*/lib /usr/local/opt/llvm*/lib \
        /Library/Developer/CommandLineTools/usr/lib \
        /Applications/Xcode.app/Contents/Developer/Toolchains/XcodeDefault.xctoolchain/usr/lib
}

# have_file <pattern>...: one of the patterns names a file that exists.
have_file() {
    for file in "$@"; do
        [ ! -e "$file" ] || return 0
    done
    return 1
}

# bindgen needs the library, and clang's own headers (stddef.h, stdarg.h). The headers are next to the library
# (lib/clang/*/include). Debian also links the library into /usr/lib/<triplet>, which has no headers.
have_libclang() {
    found=no
    for dir in $(libclang_dirs); do
        # shellcheck disable=SC2086 # the patterns are meant to expand
        if have_file "$dir"/libclang.so* "$dir"/libclang-*.so* "$dir"/libclang.dylib; then
            found=yes
            break
        fi
    done
    [ "$found" = yes ] || return 1
    for dir in $(libclang_dirs); do
        if have_file "$dir"/clang/*/include/stddef.h; then
            return 0
        fi
    done
    command -v clang >/dev/null 2>&1
}

# --- installing ------------------------------------------------------------------------------------------

# Runs a command as root, with `sudo -n` if needed.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        sudo -n "$@"
    fi
}

may_install() {
    [ "${NEED_INSTALL:-yes}" = yes ] || return 1
    # Homebrew refuses to run as root.
    [ "$manager" != brew ] || return 0
    [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null
}

find_manager() {
    for manager in apt-get dnf apk pacman brew; do
        if command -v "$manager" >/dev/null 2>&1; then return 0; fi
    done
    manager=none
}

# package_for <need>: prints its packages, by their names in this system's package manager.
package_for() {
    case "$1:$manager" in
        bash:*) echo bash ;;
        cc:apt-get) echo "gcc libc6-dev" ;;
        cc:apk) echo "gcc musl-dev" ;;
        cc:brew) echo "gcc" ;;
        cc:none) echo "a C compiler" ;;
        cc:*) echo gcc ;;
        redis:apt-get) echo redis-server ;;
        redis:pacman) echo valkey ;;
        redis:*) echo redis ;;
        libclang:apt-get) echo libclang-dev ;;
        libclang:dnf) echo clang-devel ;;
        libclang:apk) echo clang-dev ;;
        libclang:pacman) echo clang ;;
        libclang:brew) echo llvm ;;
        libclang:*) echo "libclang with clang's headers" ;;
    esac
}

install_command() {
    case $manager in
        apt-get) echo "apt-get update && apt-get install -y --no-install-recommends $*" ;;
        dnf) echo "dnf install -y $*" ;;
        apk) echo "apk add $*" ;;
        pacman) echo "pacman -S --needed --noconfirm $*" ;;
        brew) echo "brew install $*" ;;
    esac
}

install() {
    case $manager in
        # A fresh machine has no package lists yet, so the installation would find no package without the update.
        apt-get)
            as_root apt-get update
            as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
            ;;
        dnf) as_root dnf install -y "$@" ;;
        apk) as_root apk add "$@" ;;
        # Not -Sy: new package lists without an upgrade (-Syu) may break what is installed.
        pacman) as_root pacman -S --needed --noconfirm "$@" ;;
        brew) brew install "$@" ;;
    esac </dev/null >&2
}

# Debian's package redis-server starts a service on port 6379, and enables it at boot. Only the program is needed, and
# `make run` uses that port. So this stops the service. The script calls this only after it has installed the package,
# so it never stops a Redis that existed before.
stop_installed_service() {
    [ "$manager" = apt-get ] || return 0
    if [ -d /run/systemd/system ]; then
        as_root systemctl disable --now redis-server
    elif [ -x /etc/init.d/redis-server ]; then
        as_root /etc/init.d/redis-server stop
        as_root update-rc.d redis-server disable
    fi >&2
}

# --- main ------------------------------------------------------------------------------------------------

missing=
has_rust=yes
for need in "$@"; do
    case $need in
        rust) need_rust || has_rust=no ;;
        cc | libclang | redis | bash) "have_$need" || missing="$missing $need" ;;
        *)
            say "unknown: $need (known: rust, cc, libclang, redis, bash)"
            exit 2
            ;;
    esac
done

# Without Rust, the other programs are useless. So this names them, but does not install them.
if [ "$has_rust" = no ] && [ -z "$missing" ]; then exit 1; fi

if [ -n "$missing" ]; then
    find_manager
    packages=
    for need in $missing; do
        packages="$packages $(package_for "$need")"
    done
    packages=${packages# }

    if [ "$manager" = none ]; then
        say "missing:$missing. Please install: $packages"
        exit 1
    fi
    if [ "$has_rust" = no ] || ! may_install; then
        say "missing:$missing. Please install it as root:"
        say "    $(install_command "$packages")"
        exit 1
    fi

    say "missing:$missing. Installing with $manager: $packages"
    # shellcheck disable=SC2086 # several packages are several words
    install $packages || {
        say "that failed. Please install by hand: $packages"
        exit 1
    }
    case $missing in *redis*) stop_installed_service ;; esac

    for need in $missing; do
        "have_$need" || {
            say "$need is still not found, though $(package_for "$need") has been installed"
            exit 1
        }
    done
fi

case " $* " in
    *" redis "*)
        version=$(redis_version)
        version_at_least "$version" "$oldest_redis" || {
            say "$(redis_server) is version $version; the module needs $oldest_redis or later"
            say "(another server: REDIS_SERVER=/path/to/redis-server make ...)"
            exit 1
        }
        ;;
esac
