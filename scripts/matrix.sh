#!/usr/bin/env bash
# The integration tests on every server of the table below: what `make test-matrix` does.
#
#     scripts/matrix.sh <folder> [arguments of `cargo test`, as --release or -- zrl_]
#
# The servers are Debian's packages. They are not installed: each is downloaded with its libraries through a private
# apt root, unpacked into <folder>/<name>, and runs there with its own dynamic loader and C library. Nothing of the
# machine is changed, root is not needed, and what was unpacked once is used again. The mirror is the one that the
# machine's own apt knows.
#
# A server that cannot be had is skipped, and the table at the end says why. The exit code tells of failed tests only.
# Some of them only: MATRIX="redis-8.0 valkey-9" make test-matrix
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# name  suite of Debian  package
servers='redis-7.0   bookworm  redis-server
redis-8.0   trixie    redis-server
valkey-8.1  trixie    valkey-server
valkey-9    sid       valkey-server'

# No server may take longer than that, in seconds: a hang is a failure, not the end of all.
limit=${MATRIX_LIMIT:-1800}

mkdir -p "$1"
folder=$(cd "$1" && pwd)
shift

say() { printf '%s\n' "matrix: $*" >&2; }

# --- getting a server ------------------------------------------------------------------------------------

# private <apt root> <apt command>...: apt with the machine's settings (a proxy, say), but with nothing of its state. A list
# that is signed but older than it should be will do for tests; Debian's sid is renewed every few hours, mirrors are not.
private() {
    local root=$1
    shift
    "$1" -q -o Dir::State::lists="$root/lists" -o Dir::State::status=/dev/null -o Dir::Cache="$root/cache" \
        -o Dir::Etc::sourcelist="$root/sources.list" -o Dir::Etc::sourceparts=/dev/null -o APT::Sandbox::User= \
        -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
        -o Acquire::Check-Valid-Until=false -o Acquire::Retries=2 -o Acquire::http::Timeout=30 -o Acquire::https::Timeout=30 "${@:2}"
}

# Where the machine gets its packages from: the repositories of its sources, in whatever format they are written.
mirrors() {
    # shellcheck disable=SC2016 # apt fills these in
    apt-get indextargets --format '$(COMPONENT) $(REPO_URI)' | sed -n 's/^main //p' | awk '!seen[$0]++'
}

# download <apt root> <suite> <package>: the package with all it depends on, as files.
download() {
    local root=$1 suite=$2 package=$3 keys mirror
    # Names older and newer than the machine are wanted: Debian's keys for all of them lie here.
    for keys in /usr/share/keyrings/debian-archive-keyring.{pgp,gpg}; do
        if [ -e "$keys" ]; then break; else keys=; fi
    done
    for mirror in $(mirrors); do
        rm -rf "$root"
        mkdir -p "$root/lists/partial" "$root/cache/archives/partial"
        echo "deb ${keys:+[signed-by=$keys] }$mirror $suite main" >"$root/sources.list"
        # No status file: nothing is installed, so all dependencies come along, the C library among them.
        if private "$root" apt-get update && private "$root" apt-get install -y --no-install-recommends \
            --download-only "$package"; then
            return 0
        fi
    done
    return 1
}

# unpack <apt root> <tree> <package> <server>: makes the program <server>, which runs what lies in <tree>.
unpack() {
    local root=$1 tree=$2 package=$3 server=$4 deb loader libraries
    rm -rf "$tree"
    mkdir -p "$tree"
    for deb in "$root"/cache/archives/*.deb; do
        dpkg -x "$deb" "$tree"
    done
    loader=$(find "$tree" -type f -name 'ld-linux*.so.*' | head -n 1)
    libraries=$(find "$tree/lib" "$tree/usr/lib" -maxdepth 1 -type d -name '*-linux-gnu*' 2>/dev/null | paste -sd: -)
    if [ -z "$loader" ] || [ ! -e "$tree/usr/bin/$package" ]; then return 1; fi
    # The file is named by what it does: Debian's redis-server is redis-check-rdb, which looks at its name.
    cat >"$server.new" <<WRAPPER
#!/bin/sh
exec "$loader" --argv0 "$package" --library-path "$libraries" "$tree/usr/bin/$package" "\$@"
WRAPPER
    echo "exec \"$loader\" --library-path \"$libraries\" --list \"\$1\"" >"$server.ldd"
    chmod +x "$server.new"
    "$server.new" --version >/dev/null || return 1
    # Last, so that what was interrupted is done anew.
    mv "$server.new" "$server"
}

# get <name> <suite> <package>: prints why there is no such server; nothing when there is.
get() {
    local home=$folder/$1 why=
    [ ! -x "$home/server" ] || return 0
    mkdir -p "$home"
    say "getting $1 ($3 of Debian $2)"
    if [ "$(uname -s)" != Linux ]; then
        why="needs Linux"
    elif ! command -v apt-get >/dev/null || ! command -v dpkg >/dev/null; then
        why="needs apt and dpkg"
    elif ! download "$home/apt" "$2" "$3" >"$home/log" 2>&1; then
        why="no package $3 of Debian $2 to be had from the machine's mirror ($home/log)"
    elif ! unpack "$home/apt" "$home/tree" "$3" "$home/server" >>"$home/log" 2>&1; then
        why="what was downloaded does not run ($home/log)"
    fi
    rm -rf "$home/apt"
    echo "$why"
}

# --- the tests -------------------------------------------------------------------------------------------

profile=debug
for argument in "$@"; do
    case $argument in
        --release) profile=release ;;
        --) break ;;
    esac
done
release=()
[ $profile = debug ] || release=(--release)
cargo build --locked "${release[@]}"
cargo test --locked "${release[@]}" --test integration --no-run
# The same one for all, whatever happens to the sources meanwhile.
module=${CARGO_TARGET_DIR:-$PWD/target}/$profile/libzeitset.so
export ZEITSET_MODULE=$module

table=()
failed=0
while read -r name suite package; do
    case " ${MATRIX:-$name} " in
        *" $name "*) ;;
        *) continue ;;
    esac
    why=$(get "$name" "$suite" "$package")
    server=$folder/$name/server
    # The module was linked with this machine's C library, and the server brings its own.
    if [ -z "$why" ] && ! sh "$server.ldd" "$module" >"$folder/$name/log" 2>&1; then
        why="its C library is older than that of the module ($folder/$name/log)"
    fi
    if [ -n "$why" ]; then
        table+=("$name|skipped: $why")
        continue
    fi
    version=$("$server" --version | sed -n 's/.* v=\([0-9.]*\).*/\1/p')
    log=$folder/$name/tests.log
    say "$name ($version): the tests write to $log"
    started=$SECONDS
    code=0
    REDIS_SERVER=$server timeout "$limit" cargo test --locked --test integration "$@" >"$log" 2>&1 </dev/null || code=$?
    took=$((SECONDS - started))
    result=$(sed -n 's/^test result: [a-zA-Z]*\. \([0-9]* passed; [0-9]* failed\).*/\1/p' "$log" | tail -n 1)
    [ "$code" -ne 124 ] || result="not done in $limit s"
    table+=("$name ($version)|${result:-no result} ($took s)")
    if [ "$code" -ne 0 ]; then
        failed=1
        grep -E '^test .* FAILED$' "$log" || tail -n 20 "$log"
    fi
done <<<"$servers"

printf '\n'
for row in "${table[@]}"; do
    printf '%-22s %s\n' "${row%%|*}" "${row#*|}"
done
exit $failed
