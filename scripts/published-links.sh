#!/bin/sh
# Makes the pages of the client libraries ready for PyPI, npm and crates.io, where a link to another file of the
# repository leads nowhere: writes the address of the repository into these links.
#
#     scripts/published-links.sh URL [CLIENTS]
#
# URL is the address of the repository's files at this version. CLIENTS is the folder of the libraries (default: clients).
set -eu
url=$1
clients=${2:-$(dirname "$0")/../clients}
for page in "$clients"/*/README.md; do
    sed -i -e "s#](\.\./\.\./#]($url/#g" -e "s#](\.\./#]($url/clients/#g" "$page"
done
