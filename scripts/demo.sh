#!/usr/bin/env bash
# Starts a demo shop with its own server and web page. `make demo` calls this after building.
#
#     scripts/demo.sh <module> <companion> <folder> [<port> [<listen>]]
#
# Ctrl-C ends the demo. It ends by itself after an hour.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

module=$1
companion=$2
folder=$3
port=${4:-6390}
listen=${5:-127.0.0.1:8080}
cli=$(command -v redis-cli || command -v valkey-cli)

# The number of steps, which is enough for an hour, and the seconds between two steps.
steps=18000
pause=0.2

children=()
end() {
    trap - EXIT
    kill "${children[@]}" 2>/dev/null || true
    wait
    rm -rf "${folder:?}/$port"
}
trap end EXIT
trap 'exit 0' INT TERM HUP

scripts/run.sh "$module" "$port" "$folder" >"/dev/null" &
children+=($!)
until "$cli" -p "$port" PING >/dev/null 2>&1; do
    kill -0 "${children[0]}" 2>/dev/null || exit 1
    sleep 0.1
done
"$cli" -p "$port" CONFIG SET maxmemory 100mb >/dev/null

echo "A small shop is open on port $port: redis-cli -p $port. Ctrl-C closes it."
"$companion" ui --write --interval 1s --redis "redis://127.0.0.1:$port" --listen "$listen" &
children+=($!)
"$cli" -p "$port" -r "$steps" -i "$pause" EVAL "$(cat scripts/demo.lua)" 0 >/dev/null &
children+=($!)
# When one process ends, the trap ends the others.
wait -n
