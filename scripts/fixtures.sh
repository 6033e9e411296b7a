#!/usr/bin/env bash
# Writes files that a build of the module saves into tests/data/fixtures/<version>. Later versions must load them
# (tests/data/releases).
#
#     scripts/fixtures.sh [<module>]        default: the module of this source
#     scripts/fixtures.sh effects           only the bytes of this source's effects
#
# Needs Redis 7.0, whose files all newer servers can load: REDIS_SERVER names it, if redis-server is another version.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
making=make
if [ "${1:-}" = effects ]; then
    making=make_effects
elif [ $# -gt 0 ]; then
    export ZEITSET_MODULE=$1
fi
exec "${CARGO:-cargo}" test --locked --test integration -- --ignored --exact "data::releases::making::$making"
