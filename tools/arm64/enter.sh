#!/bin/bash
# Runs a command where the kernel hands programs for ARM to qemu-user; other processes do not notice.
#
#   enter.sh COMMAND...      (root)  ARCH: arm64 (default) or armhf
#
# If the machine runs such programs already (binfmt-support, systemd-binfmt, an ARM host) the command gets only
# mounts of its own. Otherwise it gets a user namespace too, where binfmt_misc is private (Linux 6.7 and later).
set -eu
[ "$(id -u)" = 0 ] || { echo "enter.sh: run as root (sudo)" >&2; exit 2; }
case ${ARCH:-arm64} in
    arm64) name=qemu-aarch64 machine=aarch64 class='\x02' number='\xb7' ;;
    armhf) name=qemu-arm machine=armv7l class='\x01' number='\x28' ;;
    *) echo "enter.sh: ARCH is arm64 or armhf, not $ARCH" >&2; exit 2 ;;
esac
qemu=$(command -v "$name-static") || { echo "enter.sh: apt-get install qemu-user-static" >&2; exit 2; }

if [ "$(uname -m)" = "$machine" ] || grep -qs '^enabled' "/proc/sys/fs/binfmt_misc/$name"; then
    exec unshare --mount "$@"
fi

# Magic and mask of little-endian ELF for the machine; F: the interpreter is opened now, P: argv[0] is kept.
header='\x7fELF'$class'\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00'$number'\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
export RULE=":$name:M::$header:$mask:$qemu:FP"
# The mappings of the new namespace are written from outside; the shell inside waits for them, then becomes root.
wait_for_root='until grep -q . /proc/self/gid_map; do sleep 0.02; done; exec "$@"'
register='mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc &&
    printf "%s" "$RULE" > /proc/sys/fs/binfmt_misc/register && unset RULE && exec "$@"'
unshare --user --mount --propagation unchanged bash -c "$wait_for_root" - bash -c "$register" - "$@" <&0 &
inside=$!
until echo "0 0 4294967295" 2>/dev/null > "/proc/$inside/uid_map"; do
    [ -n "$(jobs -rp)" ] || { wait "$inside"; exit; }
    sleep 0.02
done
echo "0 0 4294967295" > "/proc/$inside/gid_map"
trap 'kill "$inside" 2>/dev/null' INT TERM
wait "$inside"
