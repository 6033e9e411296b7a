#!/usr/bin/env bash
# Makes a Debian package of the files that `make install` installs. Needs only dpkg:
#
#     scripts/deb.sh <folder>       writes <folder>/zeitset_<version>_<architecture>.deb
#     scripts/deb.sh --need         only says whether dpkg-dev is missing, as `make deb` asks before it builds
#
# The maintainer's name comes from DEBFULLNAME and DEBEMAIL, as with Debian's own tools, or from git. File times are
# SOURCE_DATE_EPOCH, or the time of the commit.
set -euo pipefail

command -v dpkg-shlibdeps >/dev/null || { echo "deb: dpkg-shlibdeps is missing: apt-get install dpkg-dev" >&2; exit 1; }
[ "$1" != --need ] || exit 0

folder=$1/deb
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)-1
architecture=$(dpkg --print-architecture)
name=${DEBFULLNAME:-$(git config user.name || echo The Zeitset authors)}
maintainer="$name <${DEBEMAIL:-$(git config user.email || echo zeitset@localhost.localdomain)}>"
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH=$epoch

rm -rf "$folder"
mkdir -p "$folder/debian"
folder=$(cd "$folder" && pwd)
root=$folder/root
umask 022
make --no-print-directory install PREFIX=/usr DESTDIR="$root" >&2

# Other files that Debian requires in the documentation.
doc=$root/usr/share/doc/zeitset
{
    cat packaging/debian/copyright
    # In debian/copyright, the text of a licence is indented, with a dot in each empty line.
    sed -n '/^Permission/,$p' LICENSE | sed 's/^$/./; s/^/ /'
} >"$doc/copyright"
rm "$doc/LICENSE"
# Removes the debug symbols. A release publishes them in a file of their own (scripts/symbols.sh).
strip --strip-unneeded "$root/usr/lib/redis/modules/zeitset.so" "$root/usr/bin/zeitset"
install -m 644 packaging/debian/README.Debian "$doc/"
install -d "$root/usr/lib/systemd/system"
mv "$doc/examples/zeitset-ui.service" "$root/usr/lib/systemd/system/"
gzip -9nc CHANGELOG.md >"$doc/changelog.gz"
gzip -9n >"$doc/changelog.Debian.gz" <<CHANGES
zeitset ($version) unstable; urgency=medium

  * Version ${version%-1}; see changelog.gz.

 -- $maintainer  $(date -uRd "@$epoch")
CHANGES

# dpkg-shlibdeps prints the packages of the linked libraries, in the versions that the symbols need. It requires the
# control file of a source package.
programs="root/usr/lib/redis/modules/zeitset.so root/usr/bin/zeitset"
printf 'Source: zeitset\n\nPackage: zeitset\nArchitecture: any\n' >"$folder/debian/control"
# shellcheck disable=SC2086 # two files are two words
libraries=$(cd "$folder" && dpkg-shlibdeps -O $programs 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
[ -n "$libraries" ] || { echo "deb: dpkg-shlibdeps finds no libraries" >&2; exit 1; }

mkdir "$root/DEBIAN"
sed -e "s|@version@|$version|" -e "s|@architecture@|$architecture|" -e "s|@maintainer@|$maintainer|" \
    -e "s|@libraries@|$libraries|" -e "s|@size@|$(du -ks --apparent-size "$root" | cut -f1)|" \
    packaging/debian/control >"$root/DEBIAN/control"
install -m 755 packaging/debian/postinst packaging/debian/prerm "$root/DEBIAN/"
(cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"

package=$1/zeitset_${version}_$architecture.deb
dpkg-deb --root-owner-group --build "$root" "$package" >&2
rm -rf "$folder"
echo "$package"
