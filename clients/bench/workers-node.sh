#!/usr/bin/env bash
# The throughput of Node.js workers against BullMQ, as a page on standard output.
#
# usage: workers-node.sh MODULE OUT; exits with 77 if the machine lacks a needed program
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
MODULE=$(realpath "$1")
mkdir -p "$2"
OUT=$(realpath "$2")

if ! command -v npm >/dev/null || ! npm view bullmq version >/dev/null 2>&1; then
    echo "skipped: the benchmark of Node.js workers needs Node.js, npm and packages" >&2
    exit 77
fi
rm -rf "$OUT/source" "$OUT/run"
mkdir -p "$OUT/source" "$OUT/run"
cp -r ../node/{.npmrc,README.md,package.json,package-lock.json,tsconfig.json,src} "$OUT/source"
cp workers-node.mjs "$OUT/run"
. ./server.sh
{
    (cd "$OUT/source" && npm ci --silent --no-audit --no-fund && npm pack --silent --pack-destination "$OUT/run")
    cd "$OUT/run"
    npm init --yes
    npm install --silent --no-audit --no-fund ./zeitset-*.tgz redis@6 ioredis@5 bullmq@6
} >&2
node workers-node.mjs "$PORT" "$version"
