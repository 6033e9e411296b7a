#!/usr/bin/env bash
# Builds the client libraries, installs each into an empty environment, and runs its tests and the code of its README
# there. `scripts/clients-<language>.sh MODULE OUT` does this for one language.
#
# If a language is not installed, or its packages are not available, the script says so and skips the language.
# CLIENTS="python node" names languages that must not be skipped.
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
