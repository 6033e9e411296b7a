#!/bin/sh
# Refuses words that stop readers, in all texts that git tracks: source, comments, error texts, docs, scripts. `make
# lint` calls this script.
# It ignores case, punctuation and line ends: it also finds `for ever` across two lines of a comment.
#
# If a refused word is right, for example in a quotation, add a line to ALLOWED.
set -eu
cd "$(dirname "$0")/.."

# What is refused | what to write
REFUSED='
for ever            | forever
anew                | again
belong into         | belong in
belongs into        | belongs in
beside              | besides (in addition), next to (a place), against or compared with (a comparison)
of ours             | our own, the module'"'"'s own
of theirs           | their own
nobody of us        | the module never
in vain             | what happened: BLOCK timed out; no client was there
to be had           | available
of our days         | current
so many             | the number: at most n, a limit of n, that many
what is none        | what is not one
duration is none    | the duration is invalid
null of an empty set| null if the set is empty
replica neither     | not even on a replica
become whole        | are complete, or what makes them so
makes the changes whole | replicates and announces the changes
else we             | otherwise we
else it             | otherwise it
else they           | otherwise they
him who             | the one that
by himself          | by itself
who is late         | a late ACK
who was overtaken   | name the actor
lest                | so that ... not
till                | until
thrice              | three times
whereof             | of which
thereof             | of it
albeit              | although
of its own accord   | by itself
the like of         | name the things
patrol              | keyspace scan
misfit              | rejected effect
tally               | stats, totals
mended              | fixed; restored
whoever             | the client that ..., the worker that ...
anybody             | any client, or the actor'"'"'s name
everybody           | all clients, or the actors'"'"' name
dead member         | expired member
dead members        | expired members
swept               | deleted by the sweeper
clock on the wall   | wall clock
lease ends          | lease expires
leases end          | leases expire
lease ended         | lease expired
falls due           | is due
fall due            | are due
fell due            | was due
is let in           | is allowed, is admitted
are let in          | are allowed, are admitted
lets in             | allows, admits
unless it is given  | default ...
at the most         | at most
amid                | during
'

# path | words that may stand there
ALLOWED='
scripts/words.sh    | *
CHANGELOG.md        | misfit
CHANGELOG.md        | lease ends
docs/upgrading.md   | misfit
'

git rev-parse --git-dir >/dev/null 2>&1 || { echo "words: skipped, as this is no git checkout"; exit 0; }

# Lock files are written by tools.
git ls-files -z --cached --others --exclude-standard -- ':!tests/data/fixtures' ':!Cargo.lock' ':!*package-lock.json' ':!*.svg' ':!*.png' | xargs -0 awk -v refused="$REFUSED" -v allowed="$ALLOWED" '
function trim(text) { gsub(/^[ \t]+|[ \t]+$/, "", text); return text }

# Returns the words of a line, with one blank between and around them. A full stop replaces punctuation.
function plain(text) {
    text = tolower(text)
    sub(/^[ \t]*(\/\/[\/!]?|\/\*\*?|\*|#|--)?[ \t]+/, "", text)
    gsub(/[^a-z0-9 \t_*`"-]+/, " . ", text)
    gsub(/[^a-z0-9.]+/, " ", text)
    return " " trim(text) " "
}

function report(what, instead) {
    if ((FILENAME, what) in may || (FILENAME, "*") in may) return
    printf "%s:%d: \"%s\": write %s\n", FILENAME, FNR, what, instead
    hits++
}

BEGIN {
    n = split(refused, lines, "\n")
    for (i = 1; i <= n; i++) if (split(lines[i], cell, "|") == 2) instead[trim(cell[1])] = trim(cell[2])
    n = split(allowed, lines, "\n")
    for (i = 1; i <= n; i++) if (split(lines[i], cell, "|") == 2) may[trim(cell[1]), trim(cell[2])] = 1
}

FNR == 1 { before = " " }

{
    # A comment that begins with "Who" is a relative clause without a noun. Questions and titles of pages may begin with it.
    if (FILENAME !~ /\.md$/ && $0 ~ /^[ \t]*(\/\/[\/!]?|\/\*\*|\*|#|--)[ \t]+Who [a-z]/ && $0 !~ /\?/) report("Who ...", "the actor: the client that ..., which clients ...")
    words = plain($0)
    # Includes the last words of the previous line, to find phrases across a line end. Phrases within that line were found before.
    both = before words
    gsub(/  +/, " ", both)
    for (phrase in instead) if (index(both, " " phrase " ") && !index(before, " " phrase " ")) report(phrase, instead[phrase])
    if (words != "  ") {
        n = split(trim(words), last, " ")
        before = " " (n > 2 ? last[n - 2] " " : "") (n > 1 ? last[n - 1] " " : "") last[n] " "
    }
}

END { if (hits) { printf "%d words are refused: see scripts/words.sh\n", hits; exit 1 } }
'
