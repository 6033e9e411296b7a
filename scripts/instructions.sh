#!/usr/bin/env bash
# Counts the instructions that the server carries out for a request, inside callgrind (the package valgrind).
#
#   scripts/instructions.sh FOLDER REPORT
set -euo pipefail

folder=$1 report=$2
command -v callgrind_control >/dev/null || { echo "valgrind is missing: install the package valgrind" >&2; exit 1; }
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
rm -f "$folder"/out.*

# REDIS_SERVER is one program without arguments.
cat >"$folder/server" <<END
#!/bin/sh
exec valgrind --quiet --tool=callgrind --callgrind-out-file="$folder/out.%p" "${REDIS_SERVER:-redis-server}" "\$@"
END
chmod +x "$folder/server"

REDIS_SERVER=$folder/server INSTRUCTIONS=$folder "${CARGO:-cargo}" bench --locked -p zeitset-benches --bench commands >"$folder/report"
mv "$folder/report" "$report"
cat "$report"
