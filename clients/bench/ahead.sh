#!/usr/bin/env bash
# Measures the decisions per second of limits with and without units ahead, as a page: ahead.sh MODULE OUT PAGE
set -euo pipefail
MODULE=$(realpath "$1")
mkdir -p "$2"
OUT=$(realpath "$2")
PAGE=$(realpath -m "$3")
cd "$(dirname "${BASH_SOURCE[0]}")"
export PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1

rm -rf "$OUT/venv" "$OUT/source"
cp -r ../python "$OUT/source"
rm -rf "$OUT/node" "$OUT/run"
mkdir -p "$OUT/node" "$OUT/run"
cp -r ../node/{.npmrc,README.md,package.json,package-lock.json,tsconfig.json,src} "$OUT/node"
cp ahead-node.mjs "$OUT/run"
if ! {
    (cd "$OUT/node" && npm ci --silent --no-audit --no-fund && npm pack --silent --pack-destination "$OUT/run") &&
        (cd "$OUT/run" && npm init --yes && npm install --silent --no-audit --no-fund ./zeitset-*.tgz redis@6)
} >&2; then
    echo "skipped: the benchmark of limits needs Node.js, npm and packages" >&2
    exit 77
fi
if ! python3 -m venv "$OUT/venv" || ! "$OUT/venv/bin/python" -m pip install -q "$OUT/source"; then
    echo "skipped: the benchmark of limits needs Python 3.10, venv and packages" >&2
    exit 77
fi

. ./server.sh

figures=$OUT/figures
: >"$figures"
for _ in $(seq "${ROUNDS:-5}"); do
    for processes in 1 8; do
        for ahead in 0 200 5000; do
            "$OUT/venv/bin/python" ahead_python.py "$PORT" "${SECONDS_EACH:-2}" "$processes" "$ahead" | sed 's/^/Python /' | tee -a "$figures" >&2
            (cd "$OUT/run" && node ahead-node.mjs "$PORT" "${SECONDS_EACH:-2}" "$processes" "$ahead") | tee -a "$figures" >&2
        done
    done
done
python=$("$OUT/venv/bin/python" -c 'import platform; print(platform.python_version())')
sort -k 1,1 -k 2n -k 3n -k 4n "$figures" | awk -v rounds="${ROUNDS:-5}" -v today="$(date +%F)" -v cores="$(nproc)" -v server="$version" -v python="$python, Node.js $(node -p process.versions.node)" '
BEGIN {
    print "# Units ahead\n"
    print "With [units ahead](../../clients/README.md#limits), a limiter takes up to `ahead` units in one call. The table shows the"
    print "effect on one hot limit, for example `Limiter(r, \"bench\", \"100000000/1s\", ahead=200)`. The limit allows all calls.\n"
    print "On " today ", the processes and the server ran on one machine with " cores " cores (Redis " server ", Python " python ")."
    print "Each figure is the median of " rounds " rounds, with the slowest and the fastest round in brackets. In each round, the"
    print "rows of the table took turns. `make bench-clients` repeats the measurement.\n"
    print "| language | processes | `ahead` | decisions/s | commands/s that the server gets | decisions per command | CPU of the server, % |"
    print "|:--|--:|--:|--:|--:|--:|--:|"
}
{ decisions[NR] = $4; commands[NR] = $5; cpu[NR] = $6 }
NR % rounds == 0 {
    first = NR - rounds + 1; middle = NR - int(rounds / 2)
    printf "| %s | %s | %s | %d (%d … %d) | %d | %.0f | %.1f |\n", $1, $2, $3 ? $3 : "none", decisions[middle], decisions[first], decisions[NR], commands[middle], decisions[middle] / commands[middle], cpu[middle]
}' >"$PAGE"
cat "$PAGE"
