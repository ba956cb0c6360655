#!/usr/bin/env bash
# Build the Debian packages of the working tree and let lintian judge them:   tools/deb/build.sh [FOLDER]
#
# Packages, build.log and lintian.log end up in FOLDER (build/deb). Installs what the build needs, as root or through
# sudo. DEB_BUILD_OPTIONS=nocheck leaves the tests out.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$here/../../build/deb}
export PATH=/usr/sbin:/usr/bin:/sbin:/bin # Debian's own Python, whatever else the user has
# What may stay: no bug number for the intent to package; on Debian 13 the Standards-Version of Debian 12, and overrides of
# what only the lintian of Debian 12 looks for.
allowed=initial-upload-closes-no-bugs,out-of-date-standards-version,alien-tag

apt() { # as root, quietly
    local root=(env)
    [ "$(id -u)" -eq 0 ] || root=(sudo -n)
    "${root[@]}" DEBIAN_FRONTEND=noninteractive apt-get -qq "$@" >>"$folder/apt.log" 2>&1 ||
        fail "$folder/apt.log" "apt-get $* failed"
}

say() { echo "build.sh: $*"; }

fail() { # fail LOG MESSAGE
    tail -n 30 "$1" >&2
    echo "build.sh: $2; all of it is in $1" >&2
    exit 1
}

mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
: >"$folder/apt.log"
needed=(dpkg-dev fakeroot git lintian xz-utils)
dpkg -s "${needed[@]}" >/dev/null 2>&1 || {
    apt update
    apt install -y --no-install-recommends "${needed[@]}"
}
rm -f "$folder"/*.deb "$folder"/*.changes "$folder"/*.buildinfo
tree=$("$here/source.sh" "$folder")
cd "$tree"
dpkg-checkbuilddeps 2>/dev/null || {
    say "installing what the build needs"
    apt update
    apt build-dep -y --no-install-recommends ./
}
start=$SECONDS
dpkg-buildpackage -us -uc >"$folder/build.log" 2>&1 || fail "$folder/build.log" "the build failed"
grep -E '^[0-9]+ passed' "$folder/build.log" || true
say "built in $((SECONDS - start)) s: $(cd "$folder" && echo *.deb)"
start=$SECONDS
# Judged by what it says: its --fail-on also counts findings that it masks itself.
lintian --allow-root --display-info --pedantic --color never --suppress-tags "$allowed" \
    "$folder"/*.changes >"$folder/lintian.log" 2>&1 || fail "$folder/lintian.log" "lintian is not content"
! grep -q '^[EWIP]:' "$folder/lintian.log" || fail "$folder/lintian.log" "lintian is not content"
say "lintian is content ($((SECONDS - start)) s, $allowed left out)"
