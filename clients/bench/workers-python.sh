#!/usr/bin/env bash
# The throughput of Python workers against arq and RQ, as a page on standard output.
#
# In each of ROUNDS rounds, the programs run in turns. So other load of the machine affects all programs.
#
# usage: workers-python.sh MODULE OUT; exits with 77 if the machine lacks a needed program
set -euo pipefail
MODULE=$(realpath "$1")
mkdir -p "$2"
OUT=$(realpath "$2")
cd "$(dirname "${BASH_SOURCE[0]}")"
ROUNDS=${ROUNDS:-3}
export PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1

rm -rf "$OUT/venv" "$OUT/source"
if ! python3 -m venv "$OUT/venv" || ! "$OUT/venv/bin/python" -m pip install -q arq rq; then
    echo "skipped: the benchmark of Python workers needs Python 3.10, venv and packages" >&2
    exit 77
fi
cp -r ../python "$OUT/source"
"$OUT/venv/bin/python" -m pip install -q "$OUT/source"

. ./server.sh

figures=$OUT/figures
: >"$figures"
for _ in $(seq "$ROUNDS"); do
    for program in zeitset-tasks zeitset-threads arq rq; do
        for job in nothing wait; do
            "$OUT/venv/bin/python" workers_python.py "$program" "$job" "$PORT" | tee -a "$figures" >&2
        done
    done
done
python3 workers_python_report.py "$figures" "$version"
