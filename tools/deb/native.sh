#!/bin/sh
# Build the packages that hold compiled code on this machine:   native.sh PACKAGES SOURCE
#
# Leaves them in PACKAGES. Installs what the build needs: for throw-away places, see arm64.sh.
set -eu
packages=$1
log=$(mktemp)
apt="apt-get -o APT::Sandbox::User=root -o Dpkg::Options::=--force-unsafe-io" # nothing here must survive
fail() { tail -n 40 "$log" >&2; echo "native.sh: $1 failed" >&2; exit 1; }

begin=$(date +%s)
cp -r "$2" /tmp/build
cd /tmp/build
$apt update -q >"$log" 2>&1 || fail "apt-get update"
DEB_BUILD_PROFILES=nocheck $apt build-dep -qy --no-install-recommends ./ >"$log" 2>&1 ||
    fail "installing what the build needs"
echo "native.sh: tools installed in $(($(date +%s) - begin)) s"
begin=$(date +%s)
DEB_BUILD_PROFILES=nocheck DEB_BUILD_OPTIONS="nocheck noautodbgsym" dpkg-buildpackage --build=any -us -uc >"$log" 2>&1 ||
    fail "the build"
mv ../*.deb "$packages"
echo "native.sh: built in $(($(date +%s) - begin)) s: $(cd "$packages" && echo *_"$(dpkg --print-architecture)".deb)"
