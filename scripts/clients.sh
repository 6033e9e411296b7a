#!/usr/bin/env bash
# Builds the client libraries, installs each into an empty environment, and tests it there: its tests, and its README word
# by word. `scripts/clients-<language>.sh MODULE OUT` does it for one language.
#
# A language that is not installed, or whose packages are not available, is skipped, which is said. CLIENTS="python node"
# names those that must not be.
#
# usage: clients.sh MODULE OUT
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
MODULE=$(realpath "$1")
mkdir -p "$2"
OUT=$(realpath "$2")
SKIPPED=77

for language in ${CLIENTS:-python node}; do
    script=scripts/clients-$language.sh
    if [ ! -e "$script" ] && [ -z "${CLIENTS:-}" ]; then
        continue
    fi
    rm -rf "${OUT:?}/$language"
    mkdir -p "$OUT/$language"
    code=0
    "$script" "$MODULE" "$OUT/$language" || code=$?
    if [ "$code" -eq "$SKIPPED" ] && [ -z "${CLIENTS:-}" ]; then
        continue
    fi
    [ "$code" -eq 0 ] || exit "$code"
done
