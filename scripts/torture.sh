#!/usr/bin/env bash
# Runs all random tests from new seeds: simulations of the models, and real servers. The servers get clock steps, a
# hostile module, crashes that lose data, hostile input, and all of these at once. Prints a summary and the findings at
# the end.
#
#   scripts/torture.sh CARGO SECONDS FOLDER
#
# SECONDS is the duration of the tests on servers. The simulations run first, and take at most about as long. The log is
# in FOLDER.
set -euo pipefail

cargo=$1 seconds=$2 folder=$3
mkdir -p "$folder"
log=$folder/log
: >"$log"

# Tests with a line in the summary: the simulations, and the tests that run for FUZZ_SECONDS or SOAK_SECONDS.
figures='^([0-9]+ servers, [0-9]+ hours|[0-9]+ (queues|histories)|[0-9]+ h simulated|[a-z][a-z ]*, FUZZ_SEED=|clocks: |[0-9]+ (calls|commands|payloads|sets))'

status=0
# Thousands of servers and queues, each with its own seed. The first seed is new in every run.
echo "simulations"
ZEITSET_SEEDS=$((seconds * 20)) ZEITSET_SEED=$((RANDOM * 32768 + RANDOM)) \
    "$cargo" test --locked --lib -- --nocapture base:: index:: model:: >>"$log" 2>&1 || status=1

echo "servers, for $seconds seconds"
FUZZ_SECONDS=$seconds SOAK_SECONDS=$seconds "$cargo" test --locked --test integration -- --nocapture --test-threads 12 \
    torture:: >>"$log" 2>&1 || status=1

echo
echo "what was done"
grep -E "$figures" "$log" | sed 's/^/  /'
echo "findings: $(grep -cE '^test .* FAILED$' "$log" || true)"
grep -E '^test .* FAILED$|^ZEITSET_SEED=|panicked at' "$log" | sed 's/^/  /' || true
[ "$status" -eq 0 ] || echo "see $log" >&2
exit "$status"
