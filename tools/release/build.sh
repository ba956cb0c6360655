#!/usr/bin/env bash
# What a release consists of, in FOLDER:   tools/release/build.sh [FOLDER]
#
# The sdist, a pure wheel, wheels with the compiled libraries for x86-64 and aarch64, the companion under the vendor's name,
# an SBOM (SPDX 2.3) and SHA256SUMS. All is built twice, in different folders, with other permissions, times and locales, and
# compared byte for byte. Times come from the last commit. Takes what git knows or would add, and says what is not committed.
# RELEASE_WITHOUT_ZIG=1 is a quick trial: no ziglang; this machine's wheel alone, by its own compiler, for its own glibc, and
# without the native engine, whose compilation takes longer than all the rest.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
folder=$(mkdir -p "${1:-$root/build/release}" && cd "${1:-$root/build/release}" && pwd)
python=$folder/.builder/bin/python
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore

say() { echo "release/build.sh: $*"; }

without_zig() { [ -n "${RELEASE_WITHOUT_ZIG:-}" ]; }

builder() { # the environment that builds, kept while its requirements stay the same
    local wanted=$folder/.builder/requirements.txt
    without_zig && grep -v '^ziglang' "$here/requirements.txt" >"$folder/.wanted" || cp "$here/requirements.txt" "$folder/.wanted"
    if ! cmp -s "$folder/.wanted" "$wanted" || ! "$python" -c "" 2>/dev/null; then
        "$root/tools/venv.sh" "$folder/.builder" "${PYTHON:-python3}"
        "$python" -m pip install --quiet -r "$folder/.wanted"
        mv "$folder/.wanted" "$wanted"
    fi
    rm -f "$folder/.wanted"
}

tree() { # tree FOLDER: a copy of the sources
    mkdir -p "$1"
    git -C "$root" ls-files -z --cached --others --exclude-standard | (cd "$root" && while IFS= read -r -d '' file; do
        [ ! -e "$file" ] || printf '%s\0' "$file"
    done | tar -c --null -T -) | tar -x -C "$1"
}

hook() { # hook NAME SOURCES FOLDER: what pip and build call
    (cd "$2" && "$python" -c "from setuptools import build_meta; build_meta.build_$1('$3')")
}

once() { # once PLACE: build all of it; wheels are made of the sdist, which therefore lacks nothing
    local place=$1
    mkdir -p "$place/out" "$place/sdist"
    tree "$place/tree"
    hook sdist "$place/tree" "$place/out"
    tar -xzf "$place/out"/*.tar.gz -C "$place/sdist"
    hook wheel "$(echo "$place"/sdist/*/)" "$place/out"
    hook wheel "$place/tree/tools/companion" "$place/out"
    export ZIG_GLOBAL_CACHE_DIR=$place/zig ZIG_LOCAL_CACHE_DIR=$place/zig
    if without_zig; then
        "$python" "$place/tree/tools/librknnrt.py" --machine "$(uname -m)"
    else
        "$python" "$place/tree/tools/librknnrt.py"
        "$python" "$place/tree/tools/native_engine.py"
    fi
    "$python" "$here/archives.py" "$place/out" "$place/tree"
}

SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
[ -z "$(git -C "$root" status --porcelain)" ] || say "the tree has changes that are not committed; they are built, too"
builder
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
start=$SECONDS
once "$work/one" >"$folder/.build.log" 2>&1 &
first=$!
(
    sleep 3 # another time for whatever looks at the clock
    umask 077
    export TZ=Asia/Tokyo LC_ALL=C.UTF-8 PYTHONHASHSEED=1
    once "$work/two in another folder"
) >"$folder/.build-again.log" 2>&1 &
second=$!
for job in "$first:.build.log" "$second:.build-again.log"; do
    wait "${job%%:*}" || {
        tail -n 30 "$folder/${job#*:}" >&2
        echo "release/build.sh: the build failed; all of it is in $folder/${job#*:}" >&2
        exit 1
    }
done
if ! diff -rq "$work/one/out" "$work/two in another folder/out"; then
    echo "release/build.sh: two builds of the same sources differ" >&2
    exit 1
fi
rm -f "$folder"/*.whl "$folder"/*.tar.gz "$folder"/*.spdx.json "$folder/SHA256SUMS"
cp "$work/one/out"/* "$folder"
"$python" "$here/sbom.py" "$folder"
(cd "$folder" && sha256sum -- *.whl *.tar.gz *.spdx.json >SHA256SUMS && cat SHA256SUMS)
say "built twice in $((SECONDS - start)) s, byte for byte the same: $folder"
