#!/bin/sh
# Makes the packages of the client libraries ready for PyPI, npm and crates.io:
# - A link to another file of the repository leads nowhere there. Writes the address of the repository into the links.
# - Copies the page of all libraries into each package, as GUARANTEES.md.
#
#     scripts/published-links.sh URL [CLIENTS]
#
# URL is the address of the repository's files at this version. CLIENTS is the folder of the libraries (default: clients).
set -eu
url=$1
own=$(dirname "$0")/../clients
clients=${2:-$own}
for page in "$clients"/*/README.md; do
    sed -i -e "s#](\.\./\.\./#]($url/#g" -e "s#](\.\./#]($url/clients/#g" "$page"
    folder=$(dirname "$page")
    # A wheel contains the files of the Python package only.
    [ ! -d "$folder/src/zeitset" ] || folder=$folder/src/zeitset
    sed -e "s#](\.\./#]($url/#g" -e "s#](\([a-z][a-z-]*[/.)]\)#]($url/clients/\1#g" "$own/README.md" >"$folder/GUARANTEES.md"
done
