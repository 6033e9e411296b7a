#!/bin/sh
# Prints the crates of module and companion with their versions and licences: a bill of materials in CycloneDX 1.5 (JSON).
#
#     scripts/sbom.sh [cargo]
set -eu
cd "$(dirname "$0")/.."
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
printf '{"bomFormat":"CycloneDX","specVersion":"1.5","version":1,\n'
printf '"metadata":{"component":{"type":"library","name":"zeitset","version":"%s","licenses":[{"expression":"MIT"}]}},\n' "$version"
printf '"components":['
"${1:-cargo}" tree --locked --edges normal,build --prefix none --format '{p}|{l}' -p zeitset -p zeitset-companion |
    sed -n 's/ (\*)$//; s/ (proc-macro)//; s|/Apache| OR Apache|; s|Apache-2.0/MIT|Apache-2.0 OR MIT|; /^[^ ]* v[^ ]*|/s/ v/|/p' | sort -u |
    awk -F'|' '{ printf "%s\n{\"type\":\"library\",\"name\":\"%s\",\"version\":\"%s\",\"purl\":\"pkg:cargo/%s@%s\",\"licenses\":[{\"expression\":\"%s\"}]}", sep, $1, $2, $1, $2, $3; sep = "," }'
printf '\n]}\n'
