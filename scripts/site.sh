#!/usr/bin/env bash
# Builds a site with search from the documentation, with mdBook (cargo install mdbook). `make site` calls this.
#
#     scripts/site.sh <folder> [mdbook]       writes <folder>/html
#
# The pages keep their folders, so that links between pages work in the repository and on the site. The script copies
# the files that git tracks, and makes the table of contents from the titles of the pages. At the end, it finds dead
# links.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mdbook=${2:-mdbook}
command -v "$mdbook" >/dev/null || { echo "site: nothing was built: mdBook is missing (cargo install mdbook)" >&2; exit 1; }

mkdir -p "$1"
folder=$(cd "$1" && pwd)
source=$folder/source
rm -rf "$source" "$folder/html"
mkdir -p "$source"

# mdBook calls the page of a folder index.
as_index() { sed 's#\(^\|/\)README\.md$#\1index.md#'; }
git ls-files -- '*.md' ':!packaging' >"$folder/pages"
while read -r page; do
    copy=$source/$(as_index <<<"$page")
    mkdir -p "$(dirname "$copy")"
    sed 's#](\(\([^)]*/\)\{0,1\}\)README\.md#](\1index.md#g' "$page" >"$copy"
done <"$folder/pages"
# Files that pages show or link to: pictures, tables, examples of configuration, scripts.
git ls-files -- '*.svg' '*.png' 'docs/**.txt' LICENSE redis.conf.example clients/cron-cases.json clients/shard-cases.json examples packaging ':!*.md' |
    while read -r file; do
        mkdir -p "$source/$(dirname "$file")"
        cp "$file" "$source/$file"
    done

# entry <indent> <page>
entry() {
    local title
    title=$(sed -n 's/^# //p' "$2" | head -n 1)
    echo "$1- [${title//[\[\]]/}]($(as_index <<<"$2"))"
}
{
    echo "# Contents"
    entry "" README.md
    for page in docs/tour.md docs/algorithms.md docs/queue-options.md; do entry "" "$page"; done
    for part in docs/recipes docs/commands clients examples docs/benchmarks; do
        entry "" "$part/README.md"
        grep "^$part/" "$folder/pages" | grep -v "^$part/README.md$" | while read -r page; do entry "    " "$page"; done
    done
    for page in docs/operations.md docs/operators.md docs/observability.md docs/upgrading.md docs/robustness.md docs/ARCHITECTURE.md docs/formats.md \
        docs/README.md CONTRIBUTING.md RELEASING.md SECURITY.md CHANGELOG.md; do
        entry "" "$page"
    done
} >"$source/SUMMARY.md"
while read -r page; do
    grep -qF "]($(as_index <<<"$page"))" "$source/SUMMARY.md" || { echo "site: $page is in no part of the contents" >&2; exit 1; }
done <"$folder/pages"

cat >"$folder/book.toml" <<TOML
[book]
title = "Zeitset"
src = "source"
[build]
build-dir = "html"
[output.html]
smart-punctuation = false
no-section-label = true
TOML
"$mdbook" build "$folder"

# A link leads to a file, or to a folder with a page.
dead=0
while IFS= read -r page; do
    while IFS= read -r link; do
        target=$(dirname "$page")/${link%%#*}
        target=${target//%20/ }
        if [ -n "${link%%#*}" ] && [ ! -f "$target" ] && [ ! -f "$target/index.html" ]; then
            echo "site: ${page#"$folder/html/"} links to $link" >&2
            dead=1
        fi
    done < <(grep -oE '(href|src)="[^"]+"' "$page" | sed 's/^[a-z]*="//; s/"$//' | grep -Ev '^(https?|mailto|data|javascript):' | sort -u)
done < <(find "$folder/html" -name '*.html' ! -name print.html ! -name 404.html)
[ "$dead" -eq 0 ] || exit 1
echo "$folder/html/index.html"
