#!/bin/sh
# Moves timers that are due soon from PostgreSQL into a queue: see docs/recipes/tiered-timers.md.
#
#     examples/promoter.sh <queue> <horizon>        e.g. examples/promoter.sh timers 1h
#
# You may start this script at any time, on several machines, and again after a crash. A job has the id of its row, so a
# job that is in the queue is not pushed again. Prints how many jobs were pushed. PGHOST, PGDATABASE, ... (see psql),
# REDIS_HOST and REDIS_PORT name the databases.
set -eu
queue=$1 horizon=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Writes a command for each row. Queue and payload may be any text: redis-cli gets each byte as \xNN.
psql --no-psqlrc --quiet --tuples-only --no-align --set=ON_ERROR_STOP=1 \
    --set=queue="$queue" --set=horizon="$horizon" >"$folder/commands" <<'SQL'
SELECT format('ZQ.PUSH "%s" "%s" ID %s AT %sms',
              regexp_replace(encode(convert_to(:'queue', 'UTF8'), 'hex'), '(..)', '\\x\1', 'g'),
              regexp_replace(encode(convert_to(payload, 'UTF8'), 'hex'), '(..)', '\\x\1', 'g'),
              id,
              greatest(0, ceil(extract(epoch FROM due) * 1000))::bigint)
FROM timers
WHERE done IS NULL AND due < now() + CAST(:'horizon' AS interval)
ORDER BY due;
SQL

# Each reply is a line: the id of a new job, or an empty line if the queue has the job. Any other line is an error.
redis-cli -h "${REDIS_HOST:-127.0.0.1}" -p "${REDIS_PORT:-6379}" <"$folder/commands" >"$folder/replies"
awk -v expected="$(wc -l <"$folder/commands")" '
    /^[0-9]+$/ { pushed++; next }
    NF { print >"/dev/stderr"; failed = 1 }
    END { print pushed + 0; exit failed || NR != expected }
' "$folder/replies"
