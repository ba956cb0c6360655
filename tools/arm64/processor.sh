# To be sourced: QEMU_CPU is a processor of arm64 that qemu plays, and ARM64_BIND has a /proc/cpuinfo that fits.
#
# cortex-a76 (default; as in RK3588), cortex-a72 (RK3576) or cortex-a53 (RK3562): the last two lack the dot products of
# 8 bits. Libraries choose by what /proc/cpuinfo tells, and some end with an illegal instruction where it tells of another.
plain="fp asimd evtstrm aes pmull sha1 sha2 crc32 cpuid"
case ${QEMU_CPU:=cortex-a76} in
    cortex-a53) part=0xd03 features=$plain ;;
    cortex-a72) part=0xd08 features=$plain ;;
    cortex-a76) part=0xd0b features="$plain atomics fphp asimdhp asimdrdm lrcpc dcpop asimddp" ;;
    *) echo "$(basename "$0"): QEMU_CPU is cortex-a53, cortex-a72 or cortex-a76, not $QEMU_CPU" >&2; exit 2 ;;
esac
if [ "$(uname -m)" != aarch64 ]; then
    cpuinfo=$(mktemp)
    trap 'rm -f "$cpuinfo"' EXIT
    for number in $(seq 0 $(($(nproc --all) - 1))); do
        printf '%s\t: %s\n' processor "$number" BogoMIPS 48.00 Features "$features" 'CPU implementer' 0x41 \
            'CPU architecture' 8 'CPU variant' 0x0 'CPU part' "$part" 'CPU revision' 0
        echo
    done > "$cpuinfo"
    export QEMU_CPU ARM64_ENV="${ARM64_ENV:-} QEMU_CPU" ARM64_BIND="/proc/cpuinfo=$cpuinfo ${ARM64_BIND:-}"
fi
