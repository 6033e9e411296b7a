#!/usr/bin/env bash
# clients/python: builds the wheel, installs it into an empty environment, checks types, and runs tests and README there.
#
# usage: clients-python.sh MODULE OUT; exits with 77 where the machine has not got what it takes
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../clients/python"
export ZEITSET_MODULE=$1 PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
OUT=$2
unset PYTHONPATH

skip() {
    echo "skipped: make clients for Python needs $1"
    exit 77
}

python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || skip "Python 3.10 or later"
python3 -m venv "$OUT/venv" 2>/dev/null || skip "venv and pip (python3-venv)"
python=$OUT/venv/bin/python
# What is not this library's fault: a machine without access to packages.
"$python" -m pip download -q --no-deps -d "$OUT/probe" redis >/dev/null 2>&1 || skip "packages (pip cannot get redis)"

cp -r . "$OUT/source" # a build leaves files behind
"$python" -m pip wheel -q --no-deps -w "$OUT" "$OUT/source"
wheel=$(echo "$OUT"/zeitset-*.whl)
echo "clients: $(basename "$wheel")"
"$python" -m pip install -q "$wheel"
(cd "$OUT" && "$python" -c 'import zeitset, zeitset.asyncio, zeitset.asgi')
"$python" -m pip install -q "$wheel[cron,fastapi]" 'pytest>=8' 'mypy>=1.8' 'httpx>=0.27'
"$python" -m mypy --cache-dir "$OUT/mypy" src
"$python" -m pytest -p no:cacheprovider --basetemp "$OUT/servers" "${CLIENT_TESTS:-tests}"
