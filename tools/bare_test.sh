#!/usr/bin/env bash
# The fast tests as on a machine with nothing but git, make and Python: no compiler, no OpenCL, no emulator in PATH, no
# optional packages, no files of third parties. There tests may be skipped, and none may fail.
#
#   tools/bare_test.sh [PYTEST ARGUMENTS]    # PYTHON=python3.12 chooses the interpreter; Debian
set -euo pipefail
cd "$(dirname "$0")/.."

bare=$(mktemp -d)
trap 'rm -rf "$bare"' EXIT

mkdir "$bare/bin"
for package in bash coreutils dash diffutils findutils git grep gzip hostname libc-bin make mawk procps sed tar; do
    for file in $(dpkg -L "$package" | grep -E '^(/usr)?/bin/[^/]+$'); do
        ln -sf "$file" "$bare/bin/"
    done
done
ln -sf bash "$bare/bin/sh"
ln -sf mawk "$bare/bin/awk"

"${PYTHON:-python3}" -m venv "$bare/venv"
"$bare/venv/bin/python" -m pip install --quiet --disable-pip-version-check -e ".[test]"
unset CC
PATH="$bare/bin" OCL_ICD_VENDORS="$bare/none" RKNNLITE_FIXTURES="$bare/none" \
    "$bare/venv/bin/python" -m pytest -q -n auto -m "not slow" -r f "$@"
