#!/bin/bash
# Engines of the CPU reference on arm64: which form they are given, and genuine files beside the numpy kernels. It says
# nothing about speed: qemu computes. See engines.py for what it prints.
#
#   engines.sh [ARGUMENTS OF engines.py]   (root)
#
# Wheels of onnxruntime and onnx for the userland's Python come from PyPI, by PYTHON: an interpreter with pip, default
# .venv/bin/python, else python3. Models that are not in the repository are mounted: ARM64_BIND, see
# run.sh. Which processor: QEMU_CPU, see processor.sh.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
python=${PYTHON:-$source/.venv/bin/python}
[ -x "$(command -v "$python")" ] || python=python3

"$here/userland.sh" make
wheels=$("$here/userland.sh" path)/opt/engines
if [ ! -e "$wheels/.made" ]; then
    "$python" -m pip --version >/dev/null || { echo "engines.sh: apt-get install python3-pip" >&2; exit 2; }
    rm -rf "$wheels"
    platforms=()
    for tag in 2014 _2_17 _2_24 _2_27 _2_28 _2_34 _2_35; do platforms+=(--platform "manylinux${tag}_aarch64"); done
    "$python" -m pip install --quiet --target "$wheels" "${platforms[@]}" --python-version 3.11 --implementation cp \
        --only-binary=:all: onnx onnxruntime
    touch "$wheels/.made"
fi
# The plugins that engines need are found by the metadata of an installed rknnlite.
metadata=$wheels/rknnlite-0.dist-info
mkdir -p "$metadata"
printf 'Metadata-Version: 2.1\nName: rknnlite\nVersion: 0\n' > "$metadata/METADATA"
sed -n '/^\[project.entry-points.rknnlite\]/,/^$/p' "$source/pyproject.toml" |
    sed 's/^.project.entry-points.rknnlite./[rknnlite]/; s/"//g' > "$metadata/entry_points.txt"

export PYTHONPATH=/src:/src/plugins:/opt/engines ARM64_ENV=PYTHONPATH
. "$here/processor.sh"
"$here/run.sh" python3 -m tools.arm64.engines "$@"
