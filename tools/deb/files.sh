#!/bin/sh
# Package files for apt: those named, and whichever of ours they depend on:   tools/deb/files.sh FOLDER NAME...
#
# FOLDER is what build.sh filled. Recommended packages are to be named, too: apt knows no archive that has them.
set -eu
folder=$(cd "$1" && pwd)
shift
seen=' '

file_of() { # file_of NAME: its file in FOLDER, or nothing
    for file in "$folder/${1}"_*_all.deb "$folder/${1}"_*_"$(dpkg --print-architecture)".deb; do
        [ ! -e "$file" ] || echo "$file"
    done
}

print() { # print NAME: its file and those beneath it, unless they are printed already; nothing for others' packages
    case $seen in *" $1 "*) return ;; esac
    seen="$seen$1 "
    found=$(file_of "$1")
    [ -n "$found" ] || return 0
    echo "$found"
    for name in $(dpkg-deb -f "$found" Depends | tr ',' '\n' | sed 's/[(|].*//'); do print "$name"; done
}

for wanted; do
    [ -n "$(file_of "$wanted")" ] || { echo "files.sh: no package $wanted in $folder; run tools/deb/build.sh" >&2; exit 2; }
    print "$wanted"
done
