#!/bin/bash
# Makes a Debian 12 userland for run.sh, about 600 MB; does nothing when it is there. ARCH: arm64 (default) or armhf.
#
#   userland.sh make [FOLDER]      FOLDER: RKNNLITE_ARM64, else ~/.cache/rknnlite/arm64 (or armhf)
#   userland.sh path [FOLDER]      prints the folder
#
# Needs root, debootstrap and qemu-user-static. MIRROR chooses the archive.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
arch=${ARCH:-arm64}
folder=${2:-${RKNNLITE_ARM64:-${XDG_CACHE_HOME:-$HOME/.cache}/rknnlite/$arch}}
packages=ca-certificates,gcc,libc6-dev,python3,python3-numpy,python3-pluggy,python3-psutil,python3-ruamel.yaml,python3-pytest,python3-hypothesis

# The second stage may not make devices (user namespace), so they are there before it starts.
devices() {
    local name minor major
    while read -r name major minor; do
        [ -e "$folder/dev/$name" ] || mknod -m 666 "$folder/dev/$name" c "$major" "$minor"
    done <<< $'null 1 3\nzero 1 5\nfull 1 7\nrandom 1 8\nurandom 1 9\ntty 5 0\nconsole 5 1\nptmx 5 2'
}

make_userland() {
    [ -e "$folder/.made" ] && return
    mkdir -p "$folder"
    debootstrap --foreign --arch="$arch" --variant=minbase --include="$packages" bookworm "$folder" \
        ${MIRROR:+"$MIRROR"}
    devices
    # container=lxc: debootstrap then does not insist on making devices and mounts itself
    "$here/enter.sh" bash -eu -c 'mount --rbind /proc "$0/proc"; mount --rbind /sys "$0/sys"
        exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C container=lxc DEBIAN_FRONTEND=noninteractive \
            chroot "$0" /debootstrap/debootstrap --second-stage' "$folder"
    rm -f "$folder"/var/cache/apt/archives/*.deb
    touch "$folder/.made"
}

case ${1:-} in
    make) make_userland ;;
    path) echo "$folder" ;;
    *) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
