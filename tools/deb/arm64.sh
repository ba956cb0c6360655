#!/usr/bin/env bash
# Install the packages of build.sh in an arm64 Debian 12 under qemu and run debian/tests there:
#   tools/deb/arm64.sh [FOLDER] [TEST...]      ARCH: arm64 (default) or armhf
#
# What is compiled is built there, too, and ends up in FOLDER. The userland of tools/arm64 stays as it is: everything is
# written to a layer on top of it that is thrown away. Needs root or sudo.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$(cd "${1:-$here/../../build/deb}" && pwd)
arch=${ARCH:-arm64}
export PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive

[ "$(id -u)" -eq 0 ] || exec sudo -n --preserve-env=ARCH,HOME,MIRROR,RKNNLITE_ARM64 "$0" "$@"

needed=(debootstrap qemu-user-static)
dpkg -s "${needed[@]}" >/dev/null 2>&1 || {
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "${needed[@]}"
}

cd "$folder"
tree=$(echo rknnlite-*/debian/control)
tree=${tree%%/*}
[ -e "$tree" ] || { echo "arm64.sh: no packages in $PWD; run tools/deb/build.sh" >&2; exit 2; }
"$here/../arm64/userland.sh" make
base=$("$here/../arm64/userland.sh" path)
layer=$(mktemp -d)
trap 'rm -rf --one-file-system "$layer"' EXIT
mkdir "$layer/upper" "$layer/work" "$layer/root" "$layer/debs"
cp ./*_all.deb "$layer/debs"
rm -f ./*_"$arch".deb

export RKNNLITE_ARM64=$layer/root ARM64_BIND="/packages=$layer/debs /source=$folder/$tree /tests=$here"
start=$SECONDS status=0
unshare --mount bash -eu -c 'base=$1 layer=$2; shift 2
    mount -t overlay overlay -o "lowerdir=$base,upperdir=$layer/upper,workdir=$layer/work" "$layer/root"
    cp -L /etc/resolv.conf "$layer/root/etc/resolv.conf"
    "$@"' - "$base" "$layer" "$here/../arm64/run.sh" \
    sh -c '/tests/native.sh /packages /source && exec /tests/try.sh "$@"' - /packages /source "${@:2}" || status=$?
cp "$layer"/debs/*_"$arch".deb . 2>/dev/null || true
echo "arm64.sh: $((SECONDS - start)) s, status $status"
exit "$status"
