#!/usr/bin/env bash
# Install the packages of build.sh in a clean Debian and run debian/tests there:   tools/deb/test.sh [FOLDER] [TEST...]
#
# The clean place is a chroot made by mmdebstrap for this run (SUITE=bookworm; trixie works too); where CI is set it is
# the machine itself. Needs root or sudo. MIRROR chooses the archive.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$here/../../build/deb}
suite=${SUITE:-bookworm}
export PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive
only=("${@:2}")

[ "$(id -u)" -eq 0 ] || exec sudo -n --preserve-env=CI,SUITE,MIRROR "$0" "$@"

needed=(autopkgtest)
[ -n "${CI:-}" ] || needed+=(mmdebstrap)
dpkg -s "${needed[@]}" >/dev/null 2>&1 || {
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "${needed[@]}"
}

cd "$folder"
tree=$(echo rknnlite-*/debian/tests/control)
[ -e "$tree" ] || { echo "test.sh: no packages in $PWD; run tools/deb/build.sh" >&2; exit 2; }
tree=./${tree%%/*}/
debs=()
for deb in ./*.deb; do case $deb in *dbgsym*) ;; *) debs+=("$deb") ;; esac; done

place=(null)
if [ -z "${CI:-}" ]; then
    clean=$(mktemp -d)
    # Mounts are private to this process (see below) and end with it; nothing below the folder is mounted here.
    trap 'rm -rf --one-file-system "$clean"' EXIT
    mmdebstrap --quiet --variant=apt --format=directory "$suite" "$clean" ${MIRROR:+"$MIRROR"}
    cp -L /etc/resolv.conf "$clean/etc/resolv.conf"
    place=(chroot "$clean")
fi
rm -rf results
options=(--output-dir results --no-built-binaries --timeout-test=1800 --setup-commands 'apt-get update -q')
for name in ${only[@]+"${only[@]}"}; do options+=(--test-name "$name"); done
start=$SECONDS status=0
unshare --mount sh -c '[ "$1" = - ] || { mount -t proc proc "$1/proc" && mount --rbind /sys "$1/sys"; }; shift; exec "$@"' \
    sh "${clean:--}" autopkgtest "${options[@]}" "${debs[@]}" "$tree" -- "${place[@]}" >test.log 2>&1 || status=$?
cat results/summary 2>/dev/null || tail -n 40 test.log >&2
echo "test.sh: ${clean:+$suite, clean chroot: }$((SECONDS - start)) s, status $status; details in $PWD/test.log"
exit "$status"
