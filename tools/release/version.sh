#!/usr/bin/env bash
# The version of the tree, said alike everywhere; a tag must be that version:   tools/release/version.sh [vVERSION]
set -euo pipefail
cd "$(dirname "$0")/../.."

fail() { echo "release/version.sh: $*" >&2; exit 1; }

version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' rknnlite/_version.py)
debian=$(sed -E 's/(a|b|rc|\.?dev)([0-9]+)$/~\1\2/' <<<"$version") # a candidate comes before its release
first=$(head -n 1 debian/changelog)
[[ $first == "rknnlite ($debian-"* ]] || fail "rknnlite/_version.py says $version, debian/changelog: $first; run: dch -v $debian-1"
grep -q "^## \[$version\]" CHANGELOG.md || fail "CHANGELOG.md has no heading ## [$version]"
grep -qx "version = \"$version\"" tools/rknn_api/pyproject.toml || fail "tools/rknn_api/pyproject.toml has another version than $version"
[ -z "${1:-}" ] || [ "$1" = "v$version" ] || fail "the tag is $1, the version $version; tag v$version, or change rknnlite/_version.py"
echo "$version"
