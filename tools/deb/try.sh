#!/bin/sh
# Install packages and run debian/tests, where autopkgtest itself cannot run:   try.sh PACKAGES SOURCE [TEST...]
#
# PACKAGES is a folder of .deb files, SOURCE the source package's tree. Installs on this machine what the tests name: for
# throw-away places.
set -eu
packages=$1 source=$2
shift 2
log=$(mktemp -d)
apt="apt-get -o APT::Sandbox::User=root -o Dpkg::Options::=--force-unsafe-io" # nothing here must survive

quietly() { # quietly NAME COMMAND...
    name=$1
    shift
    "$@" >"$log/$name" 2>&1 || { tail -n 40 "$log/$name" >&2; echo "try.sh: $* failed" >&2; exit 1; }
}

field() { # field NAME TEST: what debian/tests/control says about a test
    awk -v RS= -v test="$2" '$0 ~ "(^|\n)Tests:[^\n]* " test "( |\n)"' "$source/debian/tests/control" |
        sed -n "s/^$1: //p" | tr -d ,
}

if [ $# -eq 0 ]; then # all that are meant for this machine
    for name in $(sed -n 's/^Tests: //p' "$source/debian/tests/control"); do
        case " $(field Architecture "$name") " in '  ' | *" $(dpkg --print-architecture) "*) set -- "$@" "$name" ;; esac
    done
fi
ours=python3-rknnlite needed=
for name in $(for test; do field Depends "$test"; done | tr ' ' '\n' | sort -u); do
    case $name in rknnlite* | python3-rknnlite* | librknnrt-rknnlite*) ours="$ours $name" ;; *) needed="$needed $name" ;; esac
done
# shellcheck disable=SC2086
needed="$("$(dirname "$0")/files.sh" "$packages" $ours) $needed"

begin=$(date +%s)
# shellcheck disable=SC2086
quietly update $apt update -q
# shellcheck disable=SC2086
quietly install $apt install -qy --no-install-recommends $needed
echo "try.sh: installed in $(($(date +%s) - begin)) s on $(dpkg --print-architecture)"

failed=0
cd "$source"
for name; do
    AUTOPKGTEST_TMP=$(mktemp -d)
    export AUTOPKGTEST_TMP
    begin=$(date +%s)
    status=0
    "debian/tests/$name" >"$log/$name" 2>&1 || status=$?
    case $status in 0) verdict=PASS ;; 77) verdict=SKIP ;; *) verdict=FAIL failed=1 ;; esac
    printf '%-20s %s (%d s)\n' "$name" "$verdict" "$(($(date +%s) - begin))"
    case $name:$verdict in
        *:FAIL) sed 's/^/    /' "$log/$name" ;;
        resnet18:* | doubles:*) grep -e TOP -e score: "$log/$name" ;;
    esac
done
exit "$failed"
