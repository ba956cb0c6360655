#!/bin/bash
# Tests for arm64: the double of librknnrt is cross-compiled, pytest runs in the userland.
#
#   test.sh [PYTEST ARGUMENTS]   (root)  default: tests/rknnrt tests/core tests/api
set -eu
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
libraries=$(mktemp -d)
trap 'rm -rf "$libraries"' EXIT
cross=aarch64-linux-gnu-gcc
command -v "$cross" >/dev/null || { echo "test.sh: apt-get install gcc-aarch64-linux-gnu" >&2; exit 2; }

"$here/userland.sh" make
cd "$source"
CC=$cross python3 tests/native/double.py "$libraries"
[ $# -gt 0 ] || set -- tests/rknnrt tests/core tests/api
export RKNN_DOUBLE_DIR=/double PYTHONPATH=/src:/src/plugins
ARM64_BIND="/double=$libraries" ARM64_ENV="RKNN_DOUBLE_DIR PYTHONPATH" \
    "$here/run.sh" python3 -m pytest -p no:cacheprovider -q "$@"
