#!/bin/bash
# Runs a command where the kernel hands arm64 programs to qemu-user; other processes do not notice.
#
#   enter.sh COMMAND...      (root)
#
# If the machine runs arm64 programs already (binfmt-support, systemd-binfmt, an arm64 host) the command gets only
# mounts of its own. Otherwise it gets a user namespace too, where binfmt_misc is private (Linux 6.7 and later).
set -eu
[ "$(id -u)" = 0 ] || { echo "enter.sh: run as root (sudo)" >&2; exit 2; }
qemu=$(command -v qemu-aarch64-static) || { echo "enter.sh: apt-get install qemu-user-static" >&2; exit 2; }

if [ "$(uname -m)" = aarch64 ] || grep -qs '^enabled' /proc/sys/fs/binfmt_misc/qemu-aarch64; then
    exec unshare --mount "$@"
fi

# Magic and mask of little-endian 64-bit ELF for aarch64; F: the interpreter is opened now, P: argv[0] is kept.
header='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
export RULE=":qemu-aarch64:M::$header:$mask:$qemu:FP"
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
