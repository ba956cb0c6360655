#!/bin/sh
# What upgrade.sh does inside of a clean Debian: board, upgrade-recommends, upgrade-bare (without), or upgrade-server.
set -eu
step=$1
log=/tmp/log
modules=/usr/lib/python3/dist-packages
export PYTHONDONTWRITEBYTECODE=1

quietly() { "$@" >"$log" 2>&1 || { tail -n 40 "$log" >&2; echo "$step: $* failed" >&2; exit 1; }; }

archive() { # archive NAME: apt knows the packages of that folder, and of no other of ours
    echo "deb [trusted=yes] file:/packages/$1 ./" >/etc/apt/sources.list.d/ours.list
    quietly apt-get update -q
}

commands() { rknnlite --help | sed -n 's/^    \([a-z][a-z-]*\) .*/\1/p' | sort; }

tops() { ls "$modules" | grep '^rknn' | grep -v dist-info | sort; }

import_all() { # whatever lies there, and the backends that it offers
    for top in $(tops | grep -v pytest); do quietly python3 -c "import $top"; done
    python3 -c "from rknnlite import plugins; print(*sorted(plugins.backends()))"
}

kept() { # kept NAME: whether the sorted lines of /tmp/NAME are all among those read; more may have come
    lost=$(comm -23 "/tmp/$1" -)
    [ -z "$lost" ] || { echo "$step: lost $1:" $lost >&2; exit 1; }
}

size() { du -sck "$@" | sed -n 's/\ttotal//p'; }

if [ "$step" = board ]; then
    before=$(size /usr /var/lib/dpkg)
    archive new
    quietly apt-get install -qy --no-install-recommends python3-rknnlite-rknnrt
    echo "board: python3-rknnlite-core and -rknnrt: $(size "$modules"/rknn*) kB with compiled modules," \
        "$(size "$modules"/rknnlite "$modules"/rknn3lite "$modules"/rknnlite-* "$modules"/rknnlite_pytest) kB of them the core"
    echo "board: with all that they need, Python too: $(($(size /usr /var/lib/dpkg) - before)) kB, numpy $(size "$modules"/numpy) kB"
    [ "$(import_all)" = rknnrt ] || { import_all; exit 1; }
    quietly apt-get install -qy --no-install-recommends rknnlite
    status=0
    rknnlite chat model 2>"$log" || status=$?
    [ "$status" -eq 4 ] && grep -q 'apt install python3-rknnlite-llm)' "$log" || { cat "$log"; exit 1; }
    quietly apt-get install -qy --no-install-recommends python3-rknnlite
    echo "board: python3-rknnlite, which is all: $(size "$modules"/rknn*) kB"
    exit 0
fi

case $step in
    upgrade-recommends) names="python3-rknnlite rknnlite" recommends=true ;;
    upgrade-bare) names=python3-rknnlite recommends=false ;;
    upgrade-server) names=rknnlite-server recommends=false ;;
esac
echo "APT::Install-Recommends \"$recommends\";" >/etc/apt/apt.conf.d/ours
archive old
# shellcheck disable=SC2086
quietly apt-get install -qy $names
tops >/tmp/tops
import_all | tr ' ' '\n' >/tmp/backends
[ ! -e /usr/bin/rknnlite ] || commands >/tmp/commands
dpkg-query -W -f '${Package}\n' | sort >/tmp/packages
archive new
quietly apt -y upgrade
quietly apt-get -qy autoremove
dpkg-query -W -f '${Package}\n' | sort >/tmp/packages.new
added=$(comm -13 /tmp/packages /tmp/packages.new | tr '\n' ' ')
gone=$(comm -23 /tmp/packages /tmp/packages.new | tr '\n' ' ')
echo "$step: $(dpkg-query -W -f '${Package} ${Version}' python3-rknnlite); added: $added; gone: ${gone:-nothing}"
[ -z "$gone" ]
tops | kept tops
import_all | tr ' ' '\n' | kept backends
[ ! -e /usr/bin/rknnlite ] || commands | kept commands
if [ "$step" = upgrade-bare ] && echo "$added" | tr ' ' '\n' | grep -v '^python3-rknnlite-' | grep .; then
    echo "$step: packages of others came along" >&2
    exit 1
fi
# To have less: what is installed by name stays when the package that brought it goes.
quietly apt-get install -qy python3-rknnlite-rknnrt
quietly apt-get autoremove -qy --purge python3-rknnlite
echo "$step: without python3-rknnlite: $(tops | tr '\n' ' ')"
case $(import_all) in *rknnrt*) ;; *) echo "$step: the backend is gone, too" >&2; exit 1 ;; esac
ours=$(dpkg-query -W -f '${Package}\n' | grep rknnlite)
# shellcheck disable=SC2086
quietly apt-get purge -qy $ours
left=$(find /etc /usr /lib /var/lib /var/cache -name '*rknn*' ! -path '/var/lib/dpkg/*' ! -path '/var/lib/apt/*' ! -path '/var/cache/apt/*')
[ -z "$left" ] || { echo "$step: left behind: $left" >&2; exit 1; }
echo "$step: removed and purged"
