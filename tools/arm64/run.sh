#!/bin/bash
# Runs a command in the userland of userland.sh, under qemu-user; ARCH: arm64 (default) or armhf.
#
#   run.sh COMMAND...            (root)  for instance: run.sh python3 -m pytest tests/rknnrt
#
# The repository is at /src, read-only where the kernel lets us, and is the working directory; FOLDER=PATH pairs in
# ARM64_BIND (separated by spaces) are mounted beside it: ARM64_BIND="/out=$PWD/build". Names of variables in
# ARM64_ENV are passed on. /dev holds plain devices only: no board's NPU, and none of the machine's own nodes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
folder=$("$here/userland.sh" path)
[ -e "$folder/.made" ] || { echo "run.sh: no userland in $folder: tools/arm64/userland.sh make" >&2; exit 2; }

variables=(PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1)
for name in ${ARM64_ENV:-}; do variables+=("$name=${!name-}"); done

exec "$here/enter.sh" bash -eu -c '
    folder=$1 source=$2 binds=$3; shift 3
    mount --rbind /proc "$folder/proc"; mount --rbind /sys "$folder/sys"
    mount -t tmpfs tmpfs "$folder/tmp"; mount -t tmpfs tmpfs "$folder/dev/shm"
    for pair in "/src=$source" $binds; do
        [ -e "$folder/${pair%%=*}" ] || mkdir -p "$folder/${pair%%=*}"
        mount --bind "${pair#*=}" "$folder/${pair%%=*}"
    done
    mount -o remount,bind,ro "$folder/src" 2>/dev/null || true
    exec chroot "$folder" env -i "${@:2:$1}" sh -c "cd /src && exec \"\$@\"" sh "${@:$1+2}"
' - "$folder" "$source" "${ARM64_BIND:-}" "${#variables[@]}" "${variables[@]}" "$@"
