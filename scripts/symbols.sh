#!/bin/sh
# Separates a library's debug symbols:
#
#     scripts/symbols.sh <library> <copy>     writes <copy> without symbols, and <copy>.debug with nothing else
#
# The library must have them: CARGO_PROFILE_RELEASE_STRIP=none CARGO_PROFILE_RELEASE_DEBUG=line-tables-only make
# A debugger finds them by the build ID, or loads them with its command symbol-file.
set -eu
readelf -S "$1" | grep -q debug_line || { echo "symbols: $1 has none" >&2; exit 1; }
objcopy --only-keep-debug "$1" "$2.debug"
objcopy --strip-unneeded --add-gnu-debuglink="$2.debug" "$1" "$2"
chmod 755 "$2"
chmod 644 "$2.debug"
