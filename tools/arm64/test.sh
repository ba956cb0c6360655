#!/bin/bash
# Tests for arm64, or with ARCH=armhf for 32-bit ARM: the doubles of librknnrt and librkllmrt are cross-compiled, pytest
# runs in the userland. Limits of CPU time say nothing under emulation, so the test of them is left out.
#
#   test.sh [PYTEST ARGUMENTS]   (root)  ARM64_TESTS: what to run, default: see below
set -eu
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
libraries=$(mktemp -d)
trap 'rm -rf "$libraries"' EXIT
case ${ARCH:-arm64} in armhf) system=arm-linux-gnueabihf ;; *) system=aarch64-linux-gnu ;; esac
cross=$system-gcc
command -v "$cross" >/dev/null || { echo "test.sh: apt-get install gcc-$system" >&2; exit 2; }

"$here/userland.sh" make
cd "$source"
CC=$cross python3 tests/doubles/double.py "$libraries"
CC=$cross PYTHONPATH=$source:$source/plugins "${PYTHON:-python3}" -m tests.doubles.rkllm.standin "$libraries"
export RKNN_DOUBLE_DIR=/double PYTHONPATH=/src:/src/plugins
ARM64_BIND="/double=$libraries" ARM64_ENV="RKNN_DOUBLE_DIR PYTHONPATH" \
    "$here/run.sh" python3 -m pytest -p no:cacheprovider -q \
    --deselect tests/core/test_package.py::test_import_is_quick ${ARM64_TESTS:-tests/rknnrt tests/core tests/spi tests/native tests/insight tests/api
        tests/rkllm/test_model_process.py tests/rkllm/test_runs.py} "$@"
