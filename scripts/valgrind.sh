#!/usr/bin/env bash
# Runs some of the integration tests on servers inside valgrind, which finds invalid reads and writes, and leaks.
#
#   scripts/valgrind.sh REDIS-SOURCE FOLDER CARGO [TEST ...]
#
# The module allocates through the server, and valgrind does not support jemalloc. So this builds a server with libc's
# malloc.
# REDIS-SOURCE is a folder with the source of Redis. If it is empty, the script fetches Debian's source package.
set -euo pipefail

source=$1 folder=$2 cargo=$3
shift 3
tests=("$@")
[ ${#tests[@]} -gt 0 ] || tests=(fuzz:: zexp::errors zexp::data zrl::errors zlb::create zlb::set zlb::stored)

mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
server=$folder/redis/src/redis-server

command -v valgrind >/dev/null || { echo "valgrind is missing: install the package valgrind" >&2; exit 1; }

if [ ! -x "$server" ]; then
    mkdir -p "$folder/redis"
    if [ -n "$source" ]; then
        cp -R "$source/." "$folder/redis"
    else
        (cd "$folder" && apt-get source --download-only redis)
        tar -xf "$(ls "$folder"/redis_*.orig.tar.*)" -C "$folder/redis" --strip-components=1
    fi
    make -C "$folder/redis/src" MALLOC=libc OPTIMIZATION=-O1 redis-server >"$folder/build.log" 2>&1
fi

# REDIS_SERVER must be one program without arguments.
cat >"$folder/server" <<END
#!/bin/sh
exec valgrind --quiet --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite \\
    --suppressions="$folder/redis/src/valgrind.sup" --num-callers=40 --log-file="$folder/report.%p" "$server" "\$@"
END
chmod +x "$folder/server"
rm -f "$folder"/report.*

status=0
REDIS_SERVER=$folder/server ZEITSET_SHUTDOWN=1 FUZZ_ROUNDS=${FUZZ_ROUNDS:-300} \
    "$cargo" test --locked --test integration -- --test-threads 2 "${tests[@]}" || status=$?

reports=("$folder"/report.*)
[ -e "${reports[0]}" ] || { echo "no server ran inside valgrind" >&2; exit 1; }
echo "${#reports[@]} processes ran inside valgrind"
if grep -hE 'Invalid|uninitialised|definitely lost|Process terminating' "${reports[@]}"; then
    echo "see $folder/report.*" >&2
    exit 1
fi
exit "$status"
