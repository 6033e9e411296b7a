#!/usr/bin/env bash
# Measures what the crate for Rust costs, and its worker against the one for Python, as a page: rust.sh MODULE OUT PAGE
#
# In each of ROUNDS rounds, the programs run in turns. So other load of the machine affects all programs.
set -euo pipefail
MODULE=$(realpath "$1")
mkdir -p "$2"
OUT=$(realpath "$2")
PAGE=$(realpath -m "$3")
ROUNDS=${ROUNDS:-5}
JOBS=10000
cd "$(dirname "${BASH_SOURCE[0]}")"
export PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1

crate() {
    (cd ../.. && "${CARGO:-cargo}" bench --quiet --locked -p zeitset-client --all-features --bench client "$@")
}

crate --no-run
rm -rf "$OUT/venv" "$OUT/source"
cp -r ../python "$OUT/source"
if ! python3 -m venv "$OUT/venv" || ! "$OUT/venv/bin/python" -m pip install -q "$OUT/source"; then
    echo "skipped: the benchmark of the crate needs Python 3.10, venv and packages" >&2
    exit 77
fi

. ./server.sh

# Runs a part of the benchmark on an empty server.
part() {
    redis-cli -p "$PORT" flushall >/dev/null
    crate -- "$1" "redis://127.0.0.1:$PORT"
}

figures=$OUT/figures
: >"$figures"
for _ in $(seq "$ROUNDS"); do
    part checks
    rust=$(part jobs | sed 's/^jobs //')
    python=$("$OUT/venv/bin/python" workers_python.py zeitset-tasks nothing "$PORT" "$JOBS" |
        python3 -c 'import json, sys; row = json.load(sys.stdin); print(round(row["jobs"] / row["seconds"]))')
    echo "rust_jobs $rust"
    echo "python_jobs $python"
    awk "BEGIN { printf \"ratio_of_jobs %.2f\\n\", $rust / $python }"
    part layer | awk '{ printf "layer_us %.2f\n", $2 / 1000 }'
done | tee -a "$figures" >&2

# The median of the rounds, with the lowest and the highest figure.
row() {
    sed -n "s/^$1 //p" "$figures" | sort -n |
        awk -v what="$2" -v goal="$3" '{ all[NR] = $1 } END { printf "| %s | %s (%s … %s) | %s |\n", what, all[int((NR + 1) / 2)], all[1], all[NR], goal }'
}

{
    cat <<END
# The crate for Rust

This page has the costs of the [crate for Rust](../../clients/rust/README.md): what its limiter adds to a command of the
crate redis, its worker compared with the worker of the Python library, and the processor time of its layer for tower.

On $(date +%F), the programs and the server ran on one machine with $(nproc) cores (Redis $version, $("${RUSTC:-rustc}" --version | cut -d' ' -f1,2), Python $("$OUT/venv/bin/python" -c 'import platform; print(platform.python_version())')).
Each figure is the median of $ROUNDS rounds, with the lowest and the highest figure in brackets. In each round, the programs
took turns. \`make bench-clients\` repeats the measurement.

| | figure | goal |
|---|--:|--:|
END
    row bare "checks a second: bare commands of redis, 64 tasks on one connection" ""
    row limiter "checks a second: \`Limiter::check\` in the same tasks" ""
    row ratio "ratio of these two" "0.9"
    row ratio_of_thread "the same ratio, by the processor time of the client's thread" ""
    row rust_jobs "10,000 jobs that do nothing, ten at once, jobs a second: Rust" ""
    row python_jobs "… Python, tasks" ""
    row ratio_of_jobs "ratio of these two" "2"
    row layer_us "processor time that the layer adds to a request, µs" "at most 5"
    cat <<'END'

In the first two rows, one process with one thread alternately sends 12,800 bare commands and 12,800 checks. The limiter
sends the same command, and also looks for a remembered denial, sets a timeout, and parses the reply into a `Decision`.
In the last row, the limiter has taken units in advance, so the layer for tower sends no command to the server.
END
} >"$PAGE"
cat "$PAGE"
