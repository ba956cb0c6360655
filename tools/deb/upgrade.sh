#!/usr/bin/env bash
# Upgrade earlier packages to those of build.sh in a clean Debian, then remove and purge them; and say what a board takes:
#   tools/deb/upgrade.sh OLD [NEW]      OLD: the folder of build.sh of an earlier version; NEW: build/deb
#
# Nothing that was installed may be lost, with or without recommended packages: every module of before is imported, every
# command of before is there. Needs root or sudo, and mmdebstrap; SUITE and MIRROR as for test.sh.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 1 ] || { echo "upgrade.sh: which folder has the earlier packages? tools/deb/upgrade.sh OLD [NEW]" >&2; exit 2; }
old=$(cd "$1" && pwd)
new=$(cd "${2:-$here/../../build/deb}" && pwd)
suite=${SUITE:-bookworm}
export PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive

[ "$(id -u)" -eq 0 ] || exec sudo -n --preserve-env=SUITE,MIRROR "$0" "$old" "$new"
dpkg -s mmdebstrap >/dev/null 2>&1 || apt-get install -y -qq --no-install-recommends mmdebstrap >/dev/null

place=$(mktemp -d)
trap 'rm -rf --one-file-system "$place"' EXIT
mmdebstrap --quiet --variant=apt --format=directory "$suite" "$place/clean" ${MIRROR:+"$MIRROR"}
cp -L /etc/resolv.conf "$place/clean/etc/resolv.conf"
mkdir -p "$place/clean/packages/old" "$place/clean/packages/new"
cp "$old"/*.deb "$place/clean/packages/old"
cp "$new"/*.deb "$place/clean/packages/new"
cp "$here/upgrade_inside.sh" "$place/clean/packages"
# The clean Debian has no dpkg-scanpackages: the indices that apt reads are made here.
for folder in old new; do (cd "$place/clean/packages/$folder" && dpkg-scanpackages --multiversion . 2>/dev/null >Packages); done
for step in board upgrade-recommends upgrade-bare upgrade-server; do
    cp -a "$place/clean" "$place/$step"
    # The mount is private to this process and ends with it.
    unshare --mount sh -ec 'mount -t proc proc "$1/proc"; exec chroot "$1" sh /packages/upgrade_inside.sh "$2"' \
        - "$place/$step" "$step"
    rm -rf --one-file-system "${place:?}/$step"
done
echo "upgrade.sh: $suite: nothing was lost"
