#!/usr/bin/env bash
# Whether a release can be made of this tree:   tools/release/check.sh [FOLDER]   (make release-check)
#
# Versions and public names agree; everything is built twice and compared (build.sh); the SBOM has what SPDX requires; the
# wheel that pip chooses here and the sdist are installed into fresh environments, where the command runs the example.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
folder=$(mkdir -p "${1:-$root/build/release}" && cd "${1:-$root/build/release}" && pwd)
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore RKNNLITE_BACKEND=cpu
unset PYTHONPATH

say() { echo "release/check.sh: $*"; }

installed() ( # installed NAME FILE [REQUIREMENT...]: a fresh environment, and the example in it
    local name=$1 file=$2 bin=$work/$1/bin model=$root/examples/resnet18/resnet18_for_RK3588.rknn
    "$root/tools/venv.sh" "$work/$name" "${PYTHON:-python3}"
    "$bin/python" -m pip install --quiet "$file" pillow
    # What pip itself chooses among the files of the release; it never looks for our names on an index.
    [ $# -eq 2 ] || "$bin/python" -m pip install --quiet --no-index --no-deps --force-reinstall --find-links "$folder" "${@:3}"
    "$bin/python" -m pip check
    cd "$work"
    [ "$("$bin/rknnlite" --version)" = "rknnlite $version" ]
    "$bin/rknnlite" info "$model" >"$work/$name.info"
    grep -qi rk3588 "$work/$name.info"
    "$bin/rknnlite" run "$model" "$root/examples/resnet18/digit_224.png" 2>"$work/$name.log" >"$work/$name.run"
    say "$name: $("$bin/python" --version), $(head -n 1 "$work/$name.run")"
)

start=$SECONDS
version=$("$here/version.sh")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$here/build.sh" "$folder"
builder=$folder/.builder/bin/python
"$builder" "$here/sbom_check.py" "$folder/rknnlite-$version.spdx.json"
(cd "$folder" && sha256sum --check --quiet SHA256SUMS)
for wheel in "$folder"/rknnlite-*.whl; do
    "$builder" "$root/tools/wheel_check.py" "$wheel" "$folder/rknnlite-$version.tar.gz" "$folder/rknnlite-$version-py3-none-any.whl"
done
installed wheel "$folder/rknnlite-$version-py3-none-any.whl" "rknnlite==$version" rknn-toolkit-lite2
chosen=$(find "$folder" -name "rknnlite-*manylinux*_$(uname -m).whl")
[ -z "$chosen" ] || (cd "$work" && "$work/wheel/bin/python" - <<'CHOSEN')
"""pip took the wheel of this machine: its compiled libraries are there."""
from pathlib import Path

import rknnlite_librknnrt

libraries = sorted(Path(rknnlite_librknnrt.__file__).parent.glob("lib/*/librknnrt.so"))
raise SystemExit(None if libraries else "release/check.sh: pip did not choose the wheel of this machine")
CHOSEN
(cd "$root" && "$work/wheel/bin/python" "$here/public_names.py")
installed sdist "$folder/rknnlite-$version.tar.gz"
say "rknnlite $version can be released ($((SECONDS - start)) s)"
