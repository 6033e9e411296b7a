# Starts a server with MODULE on PORT, and waits until the server replies. Stops the server when the calling script ends.
# Sets `version` to the version of the server. The log of the server is OUT/server.log.
PORT=${BENCH_PORT:-17380}
"${REDIS_SERVER:-redis-server}" --port "$PORT" --bind 127.0.0.1 --save '' --loglevel warning --loadmodule "$MODULE" >"$OUT/server.log" &
server=$!
trap 'kill $server' EXIT
until redis-cli -p "$PORT" ping >/dev/null 2>&1; do
    kill -0 "$server"
    sleep 0.1
done
version=$(redis-cli -p "$PORT" info server | sed -n 's/^redis_version:\([0-9.]*\).*/\1/p')
