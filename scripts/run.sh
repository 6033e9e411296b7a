#!/usr/bin/env bash
# Starts a server with the module in the foreground, for experiments. `make run` calls this after building.
#
#     scripts/run.sh <module> <port> <folder>
#     scripts/run.sh --free <port>            only says whether the port is free, as `make run` asks before it builds
#
# The configuration is a copy of redis.conf.example with three settings replaced (module, port, folder), because CONFIG
# REWRITE must not write into the repository. The data are in <folder>/<port>, which the script empties at every start.
set -euo pipefail

port=$2

# If the port accepts a connection, it is taken. bash itself connects, without nc and redis-cli.
if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
    echo "Port $port is taken: another server is listening there. Try another one:" >&2
    echo "    make run PORT=$((port == 6379 ? 6380 : port + 1))" >&2
    exit 1
fi
[ "$1" != --free ] || exit 0

module=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
folder=$3/$port
server=${REDIS_SERVER:-$(command -v redis-server || command -v valkey-server)}

rm -rf "$folder"
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

# Replaces the loadmodule line. If a module is loaded twice, the server exits.
conf=$folder/redis.conf
grep -v -E '^(loadmodule|port|dir) ' redis.conf.example >"$conf"
cat >>"$conf" <<CONF

# --- by $0 ---
port $port
dir "$folder"
loadmodule "$module"
CONF

cat <<TEXT

Zeitset on port $port. In another terminal:

    redis-cli -p $port

and try

    at most 3 one-time codes in 5 minutes (a code more than that: nil)
        ZEXP.ADD otp:+15550100 CAP 3 5m 123456

    have we seen this before? remembered for 60 days (1: new, 0: seen)
        ZEXP.ADD seen:mails NX 60d message-4711

    5 searches a minute (the first number: 1 allowed, 0 denied)
        ZRL.CHECK search:ann 5 1m

Ctrl-C ends the server. Its data is in $folder and is gone at the next start.

TEXT

exec "$server" "$conf"
