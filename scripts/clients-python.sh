#!/usr/bin/env bash
# clients/python: builds the wheel, installs it into an empty environment, checks types, and runs the tests and the code
# of the README there. On every other Python from 3.10 to 3.13 of the machine (on PATH, or installed by pyenv), it runs
# the tests of everything that depends on the version: connections, handlers, signals.
#
# usage: clients-python.sh MODULE OUT, with NOTICES in the environment (scripts/notices.sh). With CHAOS_SECONDS, it runs
# only the test `chaos`, for that long, and all tests of Celery's faults. It exits with 77 if the machine lacks a needed
# program.
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
# Without access to packages, skips the tests instead of failing.
"$python" -m pip download -q --no-deps -d "$OUT/probe" redis >/dev/null 2>&1 || skip "packages (pip cannot get redis)"

cp -r . "$OUT/source" # a build leaves files behind
../../scripts/published-links.sh https://example.com "$OUT"
"$python" -m pip wheel -q --no-deps -w "$OUT" "$OUT/source"
wheel=$(echo "$OUT"/zeitset-*.whl)
echo "clients: $(basename "$wheel")"
"$python" -m pip install -q "$wheel"
(cd "$OUT" && "$python" -c 'import zeitset, zeitset.asyncio, zeitset.asgi')
(cd "$OUT" && "$python" -c 'from importlib import resources; print((resources.files("zeitset") / "GUARANTEES.md").read_text())') |
    grep 'At least once' >/dev/null
# Tests the wheel with the module in an otherwise empty environment.
if [ "$(uname -s)" = Linux ] && getconf GNU_LIBC_VERSION >/dev/null 2>&1 && command -v objdump >/dev/null; then
    server=$("$python" ../../scripts/wheel.py "$ZEITSET_MODULE" "$NOTICES" "$OUT")
    echo "clients: $(basename "$server")"
    python3 -m venv "$OUT/server"
    "$OUT/server/bin/python" -m pip install -q --no-index "$server"
    installed=$(cd "$OUT" && "$OUT/server/bin/python" -m zeitset_server)
    cmp "$installed" "$ZEITSET_MODULE"
    "$python" -m pip install -q --no-index "$server"
    (cd "$OUT" && env -u ZEITSET_MODULE "$python" -c 'from zeitset.testing import start_server; start_server().stop()')
else
    echo "skipped: the wheel zeitset-server needs Linux with glibc, and objdump"
fi

"$python" -m pip install -q "$wheel[fastapi,flask,rest-framework,limits,dramatiq,taskiq,celery,otel]" 'pytest>=8' 'mypy>=1.8' 'httpx>=0.27' opentelemetry-sdk pytest-timeout pytest-subtests gevent eventlet flower slowapi flask-limiter pytest-asyncio pytest-lazy-fixtures pytest-xdist pytest-mock hiro flask-restful
# The tests of these packages are in their source distributions. Without a source distribution, its tests are skipped.
for package in limits dramatiq flask-limiter kombu celery; do
    version=$("$python" -c "from importlib.metadata import version; print(version('$package'))")
    if "$python" -m pip download -q --no-deps --no-binary "$package" -d "$OUT" "$package==$version"; then
        mkdir -p "$OUT/$package"
        name=${package//-/_}
        tar -xzf "$OUT/$name-$version.tar.gz" -C "$OUT/$package" --strip-components=1
        export "${name^^}_SDIST=$OUT/$package"
    fi
done
"$python" -m mypy --cache-dir "$OUT/mypy" src
if [ -n "${CHAOS_SECONDS:-}" ]; then
    CLIENT_TESTS=tests/test_chaos.py
    export CELERY_FAULTS=1
    CELERY_TESTS="tests/test_celery_faults.py tests/test_celery_theirs.py"
fi
# Two files at a time: most tests wait for servers.
"$python" -m pytest -p no:cacheprovider --basetemp "$OUT/servers" -n 2 --dist loadfile ${CHAOS_SECONDS:+-n 0 -s} "${CLIENT_TESTS:-tests}" ${CELERY_TESTS:-}
[ -z "${CHAOS_SECONDS:-}${CLIENT_TESTS:-}" ] || exit 0

own=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
declare -A runs=()
for version in 3.10 3.11 3.12 3.13; do
    [ "$version" != "$own" ] || continue
    other=
    # A shim of pyenv is on PATH even if its version is not active.
    for candidate in "$(command -v "python$version" || true)" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python; do
        if [ -z "$other" ] && [ -x "$candidate" ] && "$candidate" -m venv "$OUT/venv-$version" >/dev/null 2>&1; then
            other=$OUT/venv-$version/bin/python
        fi
    done
    if [ -z "$other" ]; then
        echo "skipped: Python $version is not on this machine"
        continue
    fi
    "$other" -m pip install -q "$wheel" 'pytest>=8'
    # Most tests wait for servers, so all versions run at the same time.
    env -u CI "$other" -m pytest -p no:cacheprovider --basetemp "$OUT/servers-$version" \
        tests/test_boundary.py tests/test_handlers.py tests/test_faults.py tests/test_stopping.py tests/test_limits.py \
        >"$OUT/python-$version.log" 2>&1 &
    runs[$version]=$!
done
code=0
for version in "${!runs[@]}"; do
    echo "clients: Python $version"
    if wait "${runs[$version]}"; then tail -1 "$OUT/python-$version.log"; else code=1 && cat "$OUT/python-$version.log"; fi
done
exit "$code"
