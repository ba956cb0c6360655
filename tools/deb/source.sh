#!/usr/bin/env bash
# Lay out the Debian source package of the working tree:   tools/deb/source.sh FOLDER
#
# Leaves FOLDER/rknnlite_VERSION.orig.tar.xz and FOLDER/rknnlite-VERSION with debian/ in it; prints the latter.
# Takes what git knows or would add, so that a forgotten "git add" does not make another package.
set -euo pipefail
folder=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$(dirname "$0")/../.."

tools/release/version.sh >/dev/null
version=$(dpkg-parsechangelog -S Version)
upstream=${version%-*}

tree=$folder/rknnlite-$upstream
rm -rf "$tree"
mkdir "$tree"
files() { git ls-files -z --cached --others --exclude-standard -- "$@" | while IFS= read -r -d '' file; do
    [ ! -e "$file" ] || printf '%s\0' "$file"
done; }
files . ':!debian' | tar -c --null -T - | tar -x -C "$tree"
tar -C "$folder" --sort=name --owner=0 --group=0 --mtime="@$(dpkg-parsechangelog -S Timestamp)" \
    -cJf "$folder/rknnlite_$upstream.orig.tar.xz" "rknnlite-$upstream"
files debian | tar -c --null -T - | tar -x -C "$tree"
echo "$tree"
