#!/usr/bin/env bash
# Runs the integration tests on every server of the table below. `make test-matrix` calls this.
#
#     scripts/matrix.sh <folder> [arguments of `cargo test`, as --release or -- zrl_]
#
# Most servers are packages of Debian. The script does not install them, needs no root, and does not change the machine.
# It downloads each server with its libraries through a private apt root, from the mirror of the machine's apt, and
# unpacks it into <folder>/<name>. The server runs there with its own dynamic loader and C library. The next run uses
# the unpacked servers again.
#
# Redis 7.2 and 7.4 and Valkey 8.0 are in no suite of Debian. MATRIX_BUILT names a folder with servers that you have
# built: $MATRIX_BUILT/redis-7.2 and so on. Each is the program itself, or the source tree with the program.
# `redis-7.0-align8` is a Redis 7.0 that aligns memory to only 8 bytes (make MALLOC=libc
# CFLAGS=-DNO_MALLOC_USABLE_SIZE). The alignment matters only if the module is built with --release.
#
# A server that is not available is skipped, and the table at the end says why. Only failed tests make the script fail.
# Only some servers: MATRIX="redis-8.0 valkey-9" make test-matrix
# Only get the servers, without running a test: MATRIX_GET=only scripts/matrix.sh <folder>
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# name      from         package        (from: a suite of Debian, or `built` for $MATRIX_BUILT)
servers='redis-7.0   bookworm     redis-server
redis-7.0-align8 built   redis-server
redis-7.2   built        redis-server
redis-7.4   built        redis-server
redis-8.0   trixie       redis-server
redis-8.6   experimental redis-server
valkey-8.0  built        valkey-server
valkey-8.1  trixie       valkey-server
valkey-9    sid          valkey-server'

# The timeout per server, in seconds. A hang is a failure, and the other servers continue.
limit=${MATRIX_LIMIT:-1800}

# The number of servers that are tested at the same time.
at_once=${MATRIX_AT_ONCE:-2}

[ $# -gt 0 ] || { echo "usage: scripts/matrix.sh <folder> [arguments of cargo test]" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
shift

say() { printf '%s\n' "matrix: $*" >&2; }

# --- getting a server ------------------------------------------------------------------------------------

# private <apt root> <apt command>...: runs apt with the machine's settings, for example a proxy, but without its state.
# Expired package lists are accepted if they are signed: Debian's sid changes every few hours, and mirrors are slower.
private() {
    local root=$1
    shift
    "$1" -q -o Dir::State::lists="$root/lists" -o Dir::State::status=/dev/null -o Dir::Cache="$root/cache" \
        -o Dir::Etc::sourcelist="$root/sources.list" -o Dir::Etc::sourceparts=/dev/null -o APT::Sandbox::User= \
        -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
        -o Acquire::Check-Valid-Until=false -o Acquire::Retries=2 -o Acquire::http::Timeout=30 -o Acquire::https::Timeout=30 "${@:2}"
}

# Prints the repositories of the machine's sources, in any format.
mirrors() {
    # shellcheck disable=SC2016 # apt fills these in
    apt-get indextargets --format '$(COMPONENT) $(REPO_URI)' | sed -n 's/^main //p' | awk '!seen[$0]++'
}

# download <apt root> <suite> <package>: downloads the package and its dependencies as files.
download() {
    local root=$1 suite=$2 package=$3 keys mirror
    # The servers are in older and newer suites than the machine's. One of these files has Debian's keys for all suites.
    for keys in /usr/share/keyrings/debian-archive-keyring.{pgp,gpg}; do
        if [ -e "$keys" ]; then break; else keys=; fi
    done
    for mirror in $(mirrors); do
        rm -rf "$root"
        mkdir -p "$root/lists/partial" "$root/cache/archives/partial"
        echo "deb ${keys:+[signed-by=$keys] }$mirror $suite main" >"$root/sources.list"
        # Experimental has only some packages. Their dependencies are in sid.
        [ "$suite" != experimental ] || echo "deb ${keys:+[signed-by=$keys] }$mirror sid main" >>"$root/sources.list"
        # Without a status file, apt takes no package for installed. So it downloads all dependencies, including the C
        # library.
        if private "$root" apt-get update && private "$root" apt-get install -y --no-install-recommends \
            --download-only "$package/$suite"; then
            return 0
        fi
    done
    return 1
}

# program <server> <tree> <file> <name>: makes the program <server>, which runs <file> as <name> with the loader and the
# libraries in <tree>.
program() {
    local server=$1 tree=$2 file=$3 name=$4 loader libraries
    loader=$(find "$tree" -type f -name 'ld-linux*.so.*' | head -n 1)
    libraries=$(find "$tree/lib" "$tree/usr/lib" -maxdepth 1 -type d -name '*-linux-gnu*' 2>/dev/null | paste -sd: -)
    if [ -z "$loader" ] || [ ! -e "$file" ]; then return 1; fi
    # The file name matters: Debian's redis-server is redis-check-rdb, which checks its own name.
    cat >"$server.new" <<WRAPPER
#!/bin/sh
exec "$loader" --argv0 "$name" --library-path "$libraries" "$file" "\$@"
WRAPPER
    echo "exec \"$loader\" --library-path \"$libraries\" --list \"\$1\"" >"$server.ldd"
    chmod +x "$server.new"
    "$server.new" --version >/dev/null || return 1
    # The script is moved into place last. If a run is interrupted before, the next run gets the server again.
    mv "$server.new" "$server"
}

# unpack <apt root> <tree>: puts the packages that were downloaded into <tree>.
unpack() {
    local root=$1 tree=$2 deb
    rm -rf "$tree"
    mkdir -p "$tree"
    for deb in "$root"/cache/archives/*.deb; do
        dpkg -x "$deb" "$tree"
    done
}

# The next functions print why a server is not available. If it is available, they print nothing.

# from_debian <home> <suite> <package>
from_debian() {
    local home=$1 why=
    if ! command -v apt-get >/dev/null || ! command -v dpkg >/dev/null; then
        why="needs apt and dpkg"
    elif ! download "$home/apt" "$2" "$3" >"$home/log" 2>&1; then
        why="no package $3 of Debian $2 on the machine's mirror ($home/log)"
    elif ! unpack "$home/apt" "$home/tree" >>"$home/log" 2>&1 ||
        ! program "$home/server" "$home/tree" "$home/tree/usr/bin/$3" "$3" >>"$home/log" 2>&1; then
        why="what was downloaded does not run ($home/log)"
    fi
    rm -rf "$home/apt"
    echo "$why"
}

# from_build <home> <name> <program>
from_build() {
    local home=$1 file
    if [ -z "${MATRIX_BUILT:-}" ]; then
        echo "MATRIX_BUILT names no folder with a $2"
        return
    fi
    for file in "$MATRIX_BUILT/$2" "$MATRIX_BUILT/$2/$3" "$MATRIX_BUILT/$2/src/$3"; do
        if [ -f "$file" ] && [ -x "$file" ]; then
            ln -sf "$(realpath "$file")" "$home/server"
            echo 'exec ldd "$1"' >"$home/server.ldd"
            return
        fi
    done
    echo "no program $MATRIX_BUILT/$2"
}

# get <name> <from> <package>
get() {
    local home=$folder/$1
    [ ! -x "$home/server" ] || return 0
    if [ "$(uname -s)" != Linux ]; then
        echo "needs Linux"
        return
    fi
    mkdir -p "$home"
    case $2 in
        built) from_build "$home" "$1" "$3" ;;
        *)
            say "getting $1 ($3 of Debian $2)"
            from_debian "$home" "$2" "$3"
            ;;
    esac
}

# --- the tests -------------------------------------------------------------------------------------------

# wanted <name>
wanted() {
    case " ${MATRIX:-$1} " in
        *" $1 "*) ;;
        *) return 1 ;;
    esac
}

if [ "${MATRIX_GET:-}" = only ]; then
    while read -r name from package; do
        if wanted "$name"; then
            why=$(get "$name" "$from" "$package")
            echo "$name: ${why:-$folder/$name/server}"
        fi
    done <<<"$servers"
    exit
fi

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
# All servers load this file, even if the sources change during the run.
module=${CARGO_TARGET_DIR:-$PWD/target}/$profile/libzeitset.so
export ZEITSET_MODULE=$module

# one <name> <server>: runs the tests on that server. Writes the row of the table and the exit code next to the log.
# Prints the failed tests.
one() {
    local name=$1 server=$2 home=$folder/$1 version started=$SECONDS code=0 result
    version=$("$server" --version | sed -n 's/.* v=\([0-9.]*\).*/\1/p')
    say "$name ($version): the tests write to $home/tests.log"
    REDIS_SERVER=$server timeout "$limit" cargo test --locked --test integration "${arguments[@]}" >"$home/tests.log" 2>&1 </dev/null || code=$?
    result=$(sed -n 's/^test result: [a-zA-Z]*\. \([0-9]* passed; [0-9]* failed\).*/\1/p' "$home/tests.log" | tail -n 1)
    [ "$code" -ne 124 ] || result="not done in $limit s"
    echo "$name ($version)|${result:-no result} ($((SECONDS - started)) s)" >"$home/row"
    say "$name ($version): ${result:-no result}"
    if [ "$code" -ne 0 ]; then
        # The names and outputs of the failed tests. If there are none, the last lines of the log.
        sed -n '/^failures:$/,$p' "$home/tests.log" | head -n 200 | grep . || tail -n 20 "$home/tests.log"
    fi
    echo "$code" >"$home/code"
}

arguments=("$@")
rows=()
running=()
while read -r name from package; do
    wanted "$name" || continue
    home=$folder/$name
    why=$(get "$name" "$from" "$package")
    # The module was linked with this machine's C library, and the server brings its own.
    if [ -z "$why" ] && ! sh "$home/server.ldd" "$module" >"$home/log" 2>&1; then
        why="its C library is older than that of the module ($home/log)"
    fi
    mkdir -p "$home"
    rows+=("$home")
    if [ -n "$why" ]; then
        echo "$name|skipped: $why" >"$home/row"
        echo 0 >"$home/code"
        continue
    fi
    # The tests wait most of the time, so several servers share the machine.
    while [ "$(jobs -rp | wc -l)" -ge "$at_once" ]; do
        wait -n || true
    done
    rm -f "$home/row" "$home/code"
    one "$name" "$home/server" &
    running+=($!)
done <<<"$servers"
[ ${#running[@]} -eq 0 ] || wait "${running[@]}" || true

printf '\n'
failed=0
for home in "${rows[@]}"; do
    row=$(cat "$home/row" 2>/dev/null || echo "${home##*/}|no result")
    printf '%-22s %s\n' "${row%%|*}" "${row#*|}"
    [ "$(cat "$home/code" 2>/dev/null)" = 0 ] || failed=1
done
exit $failed
