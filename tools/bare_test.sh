#!/usr/bin/env bash
# The demo, the examples and the fast tests (those of the documents among them) as on a machine with nothing but git, make and
# Python: no compiler, no OpenCL, no emulator in PATH, no optional packages, no files of third parties. There tests may be
# skipped, and none may fail; an example works or ends in a sentence; the demo works.
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

python=$(realpath -s "$(command -v "${PYTHON:-python3}")")
unset CC
export PATH="$bare/bin" OCL_ICD_VENDORS="$bare/none" RKNNLITE_FIXTURES="$bare/none" PIP_DISABLE_PIP_VERSION_CHECK=1

# The demo in a copy, which has no environment yet.
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
    [ ! -e "$file" ] || printf '%s\0' "$file"
done | tar -c --null -T - | { mkdir "$bare/tree" && tar -x -C "$bare/tree"; }
make -C "$bare/tree" demo PYTHON="$python" >"$bare/log" 2>&1 || { tail -n 30 "$bare/log" >&2; exit 1; }
grep -A 1 'TOP 5' "$bare/log"

"$python" -m venv "$bare/venv"
"$bare/venv/bin/python" -m pip install --quiet -e ".[test]"

for example in examples/*/test.py; do
    # Run in the copy: what an example writes stays out of the tree.
    if (cd "$bare/tree" && timeout 120 "$bare/venv/bin/python" "$example" </dev/null >"$bare/log" 2>&1); then
        echo "$example: works"
    elif [ -s "$bare/log" ] && ! grep -q Traceback "$bare/log"; then
        echo "$example: $(tail -n 1 "$bare/log")"
    else
        tail -n 30 "$bare/log" >&2
        echo "bare_test.sh: $example neither works nor ends in a sentence" >&2
        exit 1
    fi
done

"$bare/venv/bin/python" -m pytest -q -n auto -m "not slow" -r f "$@" 2>&1 | tee "$bare/log" ||
    tools/passes_alone.sh "$bare/log" "$bare/venv/bin/python"
