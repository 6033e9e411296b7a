#!/usr/bin/env bash
# Makes an RPM package of the files that `make install` installs. Needs only rpmbuild:
#
#     scripts/rpm.sh <folder>       writes <folder>/zeitset-<version>-1.<architecture>.rpm
#
# The module goes into the folder for modules of Fedora and Red Hat: /usr/lib64/redis/modules.
set -euo pipefail

command -v rpmbuild >/dev/null || { echo "rpm: rpmbuild is missing (the package rpm-build; on Debian rpm)" >&2; exit 1; }

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
modules=/usr/lib64/redis/modules
rm -rf "$1/rpm"
mkdir -p "$1/rpm"
work=$(cd "$1/rpm" && pwd)
umask 022
make --no-print-directory install PREFIX=/usr MODULE_DIR="$modules" DESTDIR="$work/root" >&2

doc=$work/root/usr/share/doc/zeitset
install -d "$work/root/usr/lib/systemd/system" "$work/root/usr/share/licenses/zeitset"
mv "$doc/examples/zeitset-ui.service" "$work/root/usr/lib/systemd/system/"
mv "$doc/LICENSE" "$doc/third-party.txt" "$work/root/usr/share/licenses/zeitset/"
strip --strip-unneeded "$work/root$modules/zeitset.so" "$work/root/usr/bin/zeitset"

rpmbuild -bb --quiet --define "_topdir $work" --define "zeitset_version $version" --define "zeitset_root $work/root" \
    --define "zeitset_modules $modules" packaging/rpm/zeitset.spec >&2
package=$(echo "$work"/RPMS/*/*.rpm)
mv "$package" "$1/"
rm -rf "$work"
echo "$1/$(basename "$package")"
