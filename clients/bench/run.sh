#!/usr/bin/env bash
# Measures the throughput of workers in both languages, and writes one page: run.sh MODULE OUT PAGE
set -euo pipefail
MODULE=$(realpath "$1")
mkdir -p "$2"
OUT=$(realpath "$2")
PAGE=$(realpath -m "$3")
page=$OUT/page
: >"$page"
for language in python node; do
    script=$(dirname "${BASH_SOURCE[0]}")/workers-$language.sh
    if [ -e "$script" ]; then
        "$script" "$MODULE" "$OUT/$language" >>"$page"
        echo >>"$page"
    fi
done
{
    printf '# Workers\n\nThis page compares the jobs per second of a worker of the client libraries with workers of other queues on Redis.\n\n'
    sed 's/^# /## /' "$page"
} >"$PAGE"
cat "$PAGE"
