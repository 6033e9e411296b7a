#!/usr/bin/env bash
# Runs all of Celery's own integration tests with zeitset:// and with redis://, from its source distribution, and compares
# the results. Takes half an hour on two cores.
#
# usage: celery-tests.sh MODULE OUT [ARGUMENTS OF PYTEST ...]; CELERY=5.6.3 names a version, by default the newest. Exits
# with 77 if the machine lacks a needed program.
set -euo pipefail
export ZEITSET_MODULE=$(realpath "$1") PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1
mkdir -p "$2"
OUT=$(realpath "$2")
shift 2
cd "$(dirname "${BASH_SOURCE[0]}")/python"

rm -rf "$OUT/venv" "$OUT/source" "$OUT/sdist"
mkdir -p "$OUT/sdist"
cp -r . "$OUT/source" # a build leaves files behind
python=$OUT/venv/bin/python
if ! python3 -m venv "$OUT/venv" || ! "$python" -m pip install -q "$OUT/source[celery]" "celery${CELERY:+==$CELERY}"; then
    echo "skipped: the tests of Celery need Python 3.10, venv and packages" >&2
    exit 77
fi
# What the tests import. The plugin of Celery itself is in the package celery.
"$python" -m pip install -q pytest pytest-timeout pytest-rerunfailures pytest-subtests pytest-order pytest-click freezegun \
    django sqlalchemy pydantic pymemcache azure-storage-blob azure-identity psutil cryptography
version=$("$python" -c 'import celery; print(celery.__version__)')
"$python" -m pip download -q --no-deps --no-binary celery -d "$OUT/sdist" "celery==$version"
tar -xzf "$OUT/sdist/celery-$version.tar.gz" -C "$OUT/sdist" --strip-components=1
echo "Celery $version, $("$python" -m pip freeze | grep -E '^(kombu|redis)=' | xargs)"
"$python" -m tests.celery_compare "$OUT/sdist" "$OUT" "$@"
