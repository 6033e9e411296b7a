#!/usr/bin/env bash
# Celery with zeitset:// and with redis://, as a page on standard output. In each of ROUNDS rounds, the brokers take turns.
#
# usage: celery.sh MODULE OUT; exits with 77 if the machine lacks a needed program
set -euo pipefail
MODULE=$(realpath "$1")
mkdir -p "$2"
OUT=$(realpath "$2")
cd "$(dirname "${BASH_SOURCE[0]}")"
ROUNDS=${ROUNDS:-3}
export PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1

rm -rf "$OUT/venv" "$OUT/source"
cp -r ../python "$OUT/source"
if ! python3 -m venv "$OUT/venv" || ! "$OUT/venv/bin/python" -m pip install -q "$OUT/source[celery]"; then
    echo "skipped: the benchmark of Celery needs Python 3.10, venv and packages" >&2
    exit 77
fi

. ./server.sh

figures=$OUT/figures
: >"$figures"
for broker in zeitset redis; do
    "$OUT/venv/bin/python" celery_python.py "$broker" "$PORT" idle | tee -a "$figures" >&2
done
for _ in $(seq "$ROUNDS"); do
    for broker in zeitset redis; do
        "$OUT/venv/bin/python" celery_python.py "$broker" "$PORT" | tee -a "$figures" >&2
    done
done
"$OUT/venv/bin/python" celery_report.py "$figures" "$version"
