#!/usr/bin/env bash
# clients/node: packs the library, installs it into an empty folder, runs the code of its README and of the recipes, and
# runs its tests. On newer Node.js versions, which npm brings, it runs the tests of the boundary to Redis.
#
# usage: clients-node.sh MODULE OUT. With CHAOS_SECONDS, it runs only the test `chaos`, for that long. It exits with 77
# if the machine lacks a needed program.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../clients/node"
export ZEITSET_MODULE=$1 DOCS=$PWD/../../docs
published=$PWD/../../scripts/published-links.sh
OUT=$2
# The Python environment of clients-python.sh, if that script has run before.
[ ! -x "$OUT/../python/venv/bin/python" ] || export ZEITSET_PYTHON=$OUT/../python/venv/bin/python

skip() {
    echo "skipped: make clients for Node.js needs $1"
    exit 77
}

node -e 'process.exit(process.versions.node.split(".")[0] < 20 ? 1 : 0)' 2>/dev/null || skip "Node.js 20 or later"
command -v npm >/dev/null || skip "npm"
# Without access to packages, skips the tests instead of failing.
npm view redis version >/dev/null 2>&1 || skip "packages (npm cannot get redis)"

mkdir -p "$OUT/source" "$OUT/empty" "$OUT/checkout" "$OUT/linked"
cp -r .npmrc LICENSE README.md package.json package-lock.json tsconfig.json src test "$OUT/source" # a build leaves files behind
cp -r "$OUT/source" "$OUT/checkout/node"
cd "$OUT/source"
npm ci --silent --no-audit --no-fund
npm run --silent check
"$published" https://example.com "$OUT"
npm pack --silent --pack-destination "$OUT" >/dev/null
tarball=$(echo "$OUT"/zeitset-*.tgz)
echo "clients: $(basename "$tarball")"

cd "$OUT/empty"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund "$tarball" redis ioredis express @opentelemetry/api
grep -q 'At least once' node_modules/zeitset/GUARANTEES.md
# Tests the installation from a checkout, and CommonJS.
cd "$OUT/linked"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund ../checkout/node
node -e 'new (require("zeitset").Retry)(); require("zeitset/testing").startServer.call'

cd "$OUT/source"
rm -rf build && npx tsc -p test
if [ -n "${CHAOS_SECONDS:-}" ]; then
    exec node build/test/chaos.js
fi
README_FOLDER="$OUT/empty" node --test build/test/readme.test.js
# The test of the README has already run.
rm build/test/readme.test.js
node --test --test-concurrency=2 "build/test/${CLIENT_TESTS:-}"*.test.js
[ -z "${CLIENT_TESTS:-}" ] || exit 0
node build/test/chaos.js

declare -A runs=()
for version in 22 24; do
    [ "$(node -p 'process.versions.node.split(".")[0]')" != "$version" ] || continue
    if ! npm install --silent --no-audit --no-fund --prefix "$OUT/node$version" "node@$version" >/dev/null 2>&1; then
        echo "skipped: npm cannot get Node.js $version"
        continue
    fi
    # Most tests wait for servers, so both versions run at the same time.
    "$OUT/node$version/node_modules/node/bin/node" --test build/test/boundary.test.js build/test/middleware.test.js build/test/limits.test.js \
        >"$OUT/node-$version.log" 2>&1 &
    runs[$version]=$!
done
code=0
for version in "${!runs[@]}"; do
    echo "clients: Node.js $version"
    if wait "${runs[$version]}"; then tail -8 "$OUT/node-$version.log"; else code=1 && cat "$OUT/node-$version.log"; fi
done
exit "$code"
