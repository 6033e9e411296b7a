#!/usr/bin/env bash
# Counts the instructions of a server per request, with callgrind of the package valgrind. Runs all contests on the
# server that REDIS_SERVER names (default redis-server). Runs two contests of limits on each SERVER.
#
#   scripts/instructions.sh FOLDER REPORT [SERVER ...]
set -euo pipefail

folder=$1 report=$2
shift 2
command -v callgrind_control >/dev/null || { echo "valgrind is missing: install the package valgrind" >&2; exit 1; }
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
rm -f "$folder"/out.*
cargo=${CARGO:-cargo}

if [ -z "${ZEITSET_MODULE:-}" ]; then
    "$cargo" build --release --locked
    for module in "${CARGO_TARGET_DIR:-$PWD/target}"/release/libzeitset.{so,dylib}; do
        if [ -e "$module" ]; then export ZEITSET_MODULE=$module; fi
    done
fi

# count <server>: prints the tables of a server. REDIS_SERVER must be one program without arguments. A server of
# scripts/matrix.sh is a script that starts another program, so callgrind has to follow child processes. The client is
# built without optimization, because its speed does not matter.
count() {
    cat >"$folder/server" <<END
#!/bin/sh
exec valgrind --quiet --tool=callgrind --trace-children=yes --callgrind-out-file="$folder/out.%p" "$1" "\$@"
END
    chmod +x "$folder/server"
    REDIS_SERVER=$folder/server INSTRUCTIONS=$folder "$cargo" bench --locked --profile dev -p zeitset-benches --bench commands
}

count "${REDIS_SERVER:-redis-server}" >"$folder/report"
for server; do
    echo >>"$folder/report"
    CONTESTS="allowed denied" count "$server" >>"$folder/report"
done
mv "$folder/report" "$report"
cat "$report"
