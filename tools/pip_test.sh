#!/usr/bin/env bash
# Build wheel and sdist and try them in fresh environments:   tools/pip_test.sh [FOLDER]
#
# One environment has the oldest dependencies that pyproject.toml allows, on the oldest Python here (3.9 where there is
# one), the other the newest of all. In both a small suite runs from the installed wheel, and the vendor's wheel is
# played by a stand-in that overwrites our files. What an installation takes on the disk is measured. Wheel and sdist
# end up in FOLDER (build/pip). The wheel holds librknnrt.so and the native engine for two machines, compiled by ziglang where that can be had;
# the sdist is source alone.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
folder=$(mkdir -p "${1:-$root/build/pip}" && cd "${1:-$root/build/pip}" && pwd)
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
TESTS=(tests/packaging/test_vendor_files.py tests/core/test_package.py tests/core/test_plugins.py tests/api
    tests/graph/test_bson.py tests/llm/test_bpe.py)

say() { echo "pip_test.sh: $*"; }

python_of() { # python_of VERSION...: the first of these that runs
    local version
    for version; do
        "python$version" -c "import ensurepip, venv" 2>/dev/null && { command -v "python$version"; return; }
        # Interpreters that pyenv has but does not offer as commands.
        set -- "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python
        [ ! -x "$1" ] || { echo "$1"; return; }
    done
    echo python3
}

build() {
    rm -rf "$folder"/*
    "$here/venv.sh" "$folder/builder" >/dev/null
    "$folder/builder/bin/python" -m pip install --quiet build
    # From a copy: what setuptools leaves behind must not end up in the tree, nor what lies there in the wheel.
    mkdir "$folder/tree"
    (cd "$root" && git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
        [ ! -e "$file" ] || printf '%s\0' "$file"
    done | tar -c --null -T -) | tar -x -C "$folder/tree"
    "$folder/builder/bin/python" -m pip install --quiet "ziglang>=0.11" || say "goes on without ziglang"
    "$folder/builder/bin/python" "$folder/tree/tools/librknnrt.py"
    "$folder/builder/bin/python" "$folder/tree/tools/native_engine.py"
    {
        "$folder/builder/bin/python" -m build --sdist --outdir "$folder" "$folder/tree"
        "$folder/builder/bin/python" -m build --wheel --outdir "$folder" "$folder/tree"
        mkdir "$folder/sdist"
        tar -xzf "$folder"/*.tar.gz -C "$folder/sdist"
        "$folder/builder/bin/python" -m build --wheel --outdir "$folder/sdist" "$folder"/sdist/*/
    } >"$folder/build.log" 2>&1 || {
        tail -n 30 "$folder/build.log" >&2
        exit 1
    }
    wheel=$(echo "$folder"/*.whl)
    "$folder/builder/bin/python" "$here/wheel_check.py" "$wheel" "$folder"/*.tar.gz "$folder"/sdist/*.whl
}

# The library for programs in other languages, where the wheel has one for this machine: it starts this environment's
# Python from where it lies, and needs neither a compiler nor a cache.
c_library() {
    local name=$1
    CC=no-compiler RKNNLITE_CACHE=/proc/none "$folder/$name/bin/rknnlite" librknnrt --dir >"$folder/$name.dir" || {
        say "$name: no library for $(uname -m) in the wheel" >&2
        return
    }
    grep -q "^$folder/$name/lib/python.*/site-packages/rknnlite_librknnrt/lib/" "$folder/$name.dir"
    CC=no-compiler "$folder/$name/bin/rknnlite" exec -- "$folder/$name/bin/python" -c "
import ctypes
library = ctypes.CDLL('librknnrt.so')
print('librknnrt.so answers', library.rknn_destroy(ctypes.c_uint64(0)))"
}

# The native engine of the wheel computes, where there is one for this processor, without a compiler or a cache.
native_engine() {
    local name=$1 networks=(examples/resnet18/resnet18_for_RK3588.rknn)
    networks+=(tests/data/{conv_relu.rk3588.{i8,fp16},act_silu.rk3588.i8,softmaxes.rk3588.i8}.rknn)
    (cd "$folder/$name.work" && "../$name/bin/python" "$here/wheel_engine.py" "${networks[@]}")
}

# try NAME PYTHON PACKAGE...: install the wheel together with these and run the suite.
try() {
    local name=$1 python=$2 work=$folder/$1.work start=$SECONDS
    shift 2
    "$here/venv.sh" "$folder/$name" "$python" >/dev/null
    local py=$folder/$name/bin/python
    "$py" -m pip install --quiet "$wheel" "$@"
    mkdir "$work"
    "$py" "$here/core_only.py"
    # What the tests need may not move what is tested.
    printf '%s\n' "$@" >"$work/constraints.txt"
    "$py" -m pip install --quiet -c "$work/constraints.txt" "pytest>=7" "hypothesis>=6" "opencv-python-headless${CV:-}"
    # The suite sees the tests and the examples, but not our source.
    cp -r "$root"/{benchmarks,examples,pyproject.toml,tests} "$work"
    (
        cd "$work"
        sed -i '/^pythonpath/d' pyproject.toml
        RKNNLITE_BACKEND=cpu "$py" examples/resnet18/test.py 2>/dev/null | grep -A 1 "TOP 5"
        "$folder/$name/bin/rknnlite" info examples/resnet18/resnet18_for_RK3588.rknn >info.txt
        grep -qi rk3588 info.txt
        "$py" -m rknnlite --version
        "$py" -m pytest -q -p no:cacheprovider -m "not slow" ${LEFT_OUT:+-k "$LEFT_OUT"} "${TESTS[@]}" >pytest.txt || { tail -n 40 pytest.txt >&2; exit 1; }
        tail -n 1 pytest.txt
    )
    c_library "$name"
    native_engine "$name"
    say "$name: $("$py" --version), $("$py" -m pip freeze | grep -iE '^(numpy|pluggy|psutil|ruamel.yaml)=' | tr '\n' ' ')\
$((SECONDS - start)) s"
}

# The vendor's wheel has the same import name. Whichever is installed last, the user is told.
beside() {
    local py=$folder/newest/bin/python
    cd "$folder" # not where our source could be imported
    "$py" "$here/vendor_stand_in.py" "$folder/stand_in"
    "$py" -m pip install --quiet --no-deps "$folder"/stand_in/*.whl # theirs over ours
    "$folder/newest/bin/rknnlite" doctor >"$folder/doctor.txt" 2>&1 && { say "doctor finds nothing wrong" >&2; exit 1; }
    grep -m 1 "hide those of the other" "$folder/doctor.txt"
    "$py" -m pip install --quiet --no-deps --force-reinstall "$wheel" # ours over theirs
    "$py" -c "from rknnlite.api import RKNNLite" 2>"$folder/import.txt" && { say "the mixture is imported" >&2; exit 1; }
    tail -n 1 "$folder/import.txt" | grep "is mixed with the vendor's rknn-toolkit-lite2"
    "$py" -m pip uninstall --quiet -y rknn-toolkit-lite2 rknnlite
    "$py" -m pip install --quiet --no-deps "$wheel"
    "$py" -c "from rknnlite.api import RKNNLite"
}

build
# Two tests look at what is imported; pluggy 1.0 itself imports importlib.metadata.
CV="<4.9" LEFT_OUT="not test_import_loads_nothing_heavy and not test_choosing_a_backend_reads_no_yaml" try oldest "$(python_of 3.9 3.10 3.11)" numpy==1.24.0 pluggy==1.0.0 psutil==5.9.0 ruamel.yaml==0.17.0
try newest "$(python_of 3.14 3.13 3.12 3.11)"
beside
(cd "$folder" && "$folder/newest/bin/python" "$here/installed_size.py" "$wheel")
say "wheel and sdist in $folder"
