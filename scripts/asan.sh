#!/usr/bin/env bash
# Runs some of the integration tests on a server that was built with AddressSanitizer, which finds reads and writes of
# freed or unallocated memory. The module allocates through the server. If the module frees memory too early, the
# server's access shows that.
#
#   scripts/asan.sh SERVER FOLDER CARGO [TEST ...]
#
# SERVER is a redis-server or valkey-server built with `make SANITIZER=address`. Reports are in FOLDER.
set -euo pipefail

server=$1 folder=$2 cargo=$3
shift 3
tests=("$@")
[ ${#tests[@]} -gt 0 ] || tests=(neighbour:: fuzz:: losses:: zlb::hostile zlb::random)

if [ ! -x "$server" ] || ! grep -q __asan_init "$server"; then
    echo "REDIS_SERVER has to be a server built with AddressSanitizer (in its source: make SANITIZER=address)" >&2
    exit 1
fi
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
rm -f "$folder"/report.*

status=0
# tests/server/memory.rs and valgrind search for leaks, so the sanitizer does not. A too large allocation returns null.
# The tests preload a library that moves the clock, so the sanitizer's library is not the first.
ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:verify_asan_link_order=0:abort_on_error=1:log_path=$folder/report REDIS_SERVER=$server \
    FUZZ_ROUNDS=${FUZZ_ROUNDS:-3000} "$cargo" test --locked --test integration -- --test-threads 2 "${tests[@]}" || status=$?

if grep -hs 'ERROR: AddressSanitizer' "$folder"/report.*; then
    echo "see $folder/report.*" >&2
    exit 1
fi
exit "$status"
