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

cd "$folder"
tree=$(echo rknnlite-*/debian/tests/control)
[ -e "$tree" ] || { echo "test.sh: no packages in $PWD; run tools/deb/build.sh" >&2; exit 2; }
tree=./${tree%%/*}/
needed=(autopkgtest)
[ -n "${CI:-}" ] || needed+=(mmdebstrap)
dpkg -s "${needed[@]}" >/dev/null 2>&1 || {
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends "${needed[@]}"; } >apt.log 2>&1 ||
        { tail -n 30 apt.log >&2; exit 1; }
}
debs=()
for deb in ./*_all.deb ./*_"$(dpkg --print-architecture)".deb; do case $deb in *dbgsym*) ;; *) debs+=("$deb") ;; esac; done

rm -rf results
options=(--output-dir results --no-built-binaries --timeout-test=1800 --setup-commands 'apt-get update -q')
for name in ${only[@]+"${only[@]}"}; do options+=(--test-name "$name"); done
start=$SECONDS status=0
if [ -n "${CI:-}" ]; then
    where="this machine"
    autopkgtest "${options[@]}" "${debs[@]}" "$tree" -- null >test.log 2>&1 || status=$?
else
    where="$suite, clean chroot"
    clean=$(mktemp -d)
    trap 'rm -rf --one-file-system "$clean"' EXIT
    mmdebstrap --quiet --variant=apt --format=directory "$suite" "$clean" ${MIRROR:+"$MIRROR"}
    cp -L /etc/resolv.conf "$clean/etc/resolv.conf"
    # The mounts are private to this process and end with it, so that nothing of them is there to be removed.
    unshare --mount sh -ec 'mount -t proc proc "$1/proc"; mount --rbind /sys "$1/sys"; shift; exec "$@"' - "$clean" \
        autopkgtest "${options[@]}" "${debs[@]}" "$tree" -- chroot "$clean" >test.log 2>&1 || status=$?
fi
cat results/summary 2>/dev/null || tail -n 40 test.log >&2
echo "test.sh: $where: $((SECONDS - start)) s, status $status; details in $PWD/test.log"
exit "$status"
