#!/bin/sh
# Prints the licences of the crates that module and companion are linked with. `make` writes them next to its output,
# and packages contain them.
#
#     scripts/notices.sh [cargo]
#
# Each text is printed once, below the names of its crates. If a crate offers a choice, the MIT licence is used.
set -eu
cd "$(dirname "$0")/.."
cargo=${1:-cargo}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A line for each crate, "name version|licence", without our own crates, whose lines name a folder.
"$cargo" tree --locked --edges normal,no-proc-macro --prefix none --format '{p}|{l}' -p zeitset -p zeitset-companion >"$work/tree"
sed -n 's/ (\*)$//; /^[^ ]* v[^ ]*|/s/ v/ /p' "$work/tree" | sort -u >"$work/crates"
"$cargo" metadata --locked --format-version 1 >"$work/metadata"
tr ',' '\n' <"$work/metadata" | sed -n 's/.*"manifest_path":"\(.*\)\/Cargo.toml"$/\1/p' >"$work/folders"

while IFS='|' read -r crate licence; do
    name="${crate% *}-${crate#* }"
    folder=$(grep "/$name\$" "$work/folders" | head -n 1)
    [ -n "$folder" ] || { echo "notices: no source of $crate" >&2; exit 1; }
    ls "$folder" | grep -Ei '^(licen[cs]e|copying|notice|unlicense)' >"$work/names" || true
    case $licence in
        *" AND "*) ;;
        *MIT*) if grep -qi mit "$work/names"; then grep -i mit "$work/names" >"$work/mit"; mv "$work/mit" "$work/names"; fi ;;
    esac
    [ -s "$work/names" ] || echo "$crate ($licence)" >>"$work/without"
    while read -r file; do
        [ -f "$folder/$file" ] || continue
        text=$work/text.$(cksum <"$folder/$file" | tr ' ' '-')
        cp "$folder/$file" "$text"
        echo "$crate ($licence)" >>"$text.of"
    done <"$work/names"
done <"$work/crates"

cat <<TEXT
The module and the program zeitset are linked with the Rust standard library (MIT or Apache-2.0, https://www.rust-lang.org) and
with the crates below. The registry of Rust packages has their sources, under these names and versions.
TEXT
for of in "$work"/text.*.of; do
    printf '\n%s\n\n' "--------------------------------------------------------------------------------"
    sort -u "$of"
    echo
    cat "${of%.of}"
done
if [ -s "$work/without" ]; then
    printf '\n%s\n\nWithout a text of their own; the licence is named in their Cargo.toml:\n\n' \
        "--------------------------------------------------------------------------------"
    sort -u "$work/without"
fi
