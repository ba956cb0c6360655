#!/usr/bin/env bash
# Publish files as the release of a tag, with its part of CHANGELOG.md (needs gh):   tools/release/assets.sh vVERSION FOLDER
#
# RELEASE_DRY_RUN=1 prints the command and the text.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tag=$1 folder=$2
version=$("$here/version.sh" "$tag")
notes=$(mktemp)
trap 'rm -f "$notes"' EXIT
awk -v head="## [$version]" 'index($0, "## [") == 1 { on = index($0, head) == 1; next } on' "$here/../../CHANGELOG.md" >"$notes"
command=(gh release create "$tag" --verify-tag --title "rknnlite $version" --notes-file "$notes")
[[ $version =~ ^[0-9.]+$ ]] || command+=(--prerelease)
command+=("$folder"/*)
if [ -n "${RELEASE_DRY_RUN:-}" ]; then
    echo "${command[@]}"
    cat "$notes"
else
    "${command[@]}"
fi
