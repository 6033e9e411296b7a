#!/usr/bin/env bash
# Builds the module of the last release, and tests it together with the module of this source
# (tests/data/releases/versions).
# `make test-versions` calls this.
#
#     scripts/test-versions.sh <folder> [upgrade|back]
#
# Builds the release in <folder>/<version>, from the commit below. If neither this clone nor its origin has the commit,
# the script says so, and exits with 77.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
version=0.3.0
commit=213ede1c73998fa1ad2e99c4defe242ea5529e88

export GIT_TERMINAL_PROMPT=0
if ! git cat-file -e "$commit^{commit}" 2>/dev/null && ! git fetch -q --depth 1 origin "$commit" 2>/dev/null; then
    echo "test-versions: this clone and its origin have no commit $commit, which is version $version" >&2
    exit 77
fi
source=$1/$version
if [ ! -e "$source" ]; then
    mkdir -p "$source.part"
    git archive "$commit" | tar -x -C "$source.part"
    mv "$source.part" "$source"
fi
source=$(cd "$source" && pwd)
cargo=${CARGO:-cargo}
CARGO_TARGET_DIR=$source/target "$cargo" build --locked --lib --manifest-path "$source/Cargo.toml"
export ZEITSET_RELEASE=$source/target/debug/libzeitset.so
exec "$cargo" test --locked --test integration -- --ignored "data::releases::versions::${2:-}"
