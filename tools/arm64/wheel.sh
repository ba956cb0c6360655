#!/bin/bash
# The native engine of a wheel on arm64, without a compiler: which library a processor gets, and whether its bytes are
# those of the numpy kernels; see ../wheel_engine.py, whose digests are the same on every machine.
#
#   wheel.sh WHEEL MODEL.rknn ...   (root)  models of the repository, by their path in it; QEMU_CPU: see processor.sh
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 2 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
"$here/userland.sh" make
unpacked=$(mktemp -d)
python3 -m zipfile -e "$1" "$unpacked"
shift
export PYTHONPATH=/wheel ARM64_ENV=PYTHONPATH ARM64_BIND="/wheel=$unpacked"
. "$here/processor.sh"
trap 'rm -rf "$unpacked" "${cpuinfo:-}"' EXIT
"$here/run.sh" python3 tools/wheel_engine.py "$@"
