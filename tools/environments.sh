#!/usr/bin/env bash
# make demo and make test as a newcomer types them, in clean Debian systems:   tools/environments.sh [SUITE/WHO|here/PYTHON...]
#
# Each system is a chroot of its own, made for the run and removed after it, with what README asks for (git, make) and
# certificates; the project is a clone of what is committed. WHO is root, whom apt obeys, or user: an ordinary account
# without sudo. The user tries once without Python, where `make demo` has to end in the command for apt, and again after
# the administrator has run it. Suites bring their Python: bullseye 3.9, bookworm 3.11, trixie 3.13, testing the newest. Others are
# taken from this machine: here/PYTHON runs in a fresh clone with a fresh HOME, and no more than /usr/bin and /bin in PATH.
#
#   TARGETS="demo test"  PYTEST_ARGS="tests/core -n 1"   what is made; with SLOW=1 the slow tests, too
#   MIRROR=...           the archive;  KEEP=folder       where systems are kept for the next run, before anything was made
#
# Needs root and debootstrap. The last lines are a table; the exit code is 0 when everything in it is well.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
[ $# -gt 0 ] || set -- bookworm/root bookworm/user trixie/root trixie/user testing/root testing/user bullseye/root
[ "$(id -u)" -eq 0 ] || exec sudo -n --preserve-env=TARGETS,PYTEST_ARGS,SLOW,MIRROR,KEEP "$0" "$@"
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
command -v debootstrap >/dev/null || { echo "environments.sh: apt install debootstrap" >&2; exit 2; }

work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
mkdir -p "${KEEP:=$work/kept}" "$root/build/environments"
targets=${TARGETS:-demo test}
status=0
table=()

# system SUITE FOLDER: a fresh copy of a Debian that has git, make and certificates, ours among them.
system() {
    if [ ! -e "$KEEP/$1.made" ]; then
        local like=/usr/share/debootstrap/scripts/$1
        [ -e "$like" ] || like=/usr/share/debootstrap/scripts/sid
        rm -rf --one-file-system "${KEEP:?}/$1"
        debootstrap --variant=minbase --include=git,make,ca-certificates "$1" "$KEEP/$1" \
            "${MIRROR:-}" "$like" >"$log" 2>&1 || { tail -n 20 "$log" >&2; return 1; }
        touch "$KEEP/$1.made"
    fi
    cp -a --reflink=auto "$KEEP/$1" "$2"
    cp -L /etc/resolv.conf "$2/etc/resolv.conf"
    echo "127.0.0.1 localhost" >"$2/etc/hosts" # as every installer writes it
    [ ! -e /etc/ssl/certs/ca-certificates.crt ] || cp -L /etc/ssl/certs/ca-certificates.crt "$2/etc/ssl/certs/"
    apt-config dump Acquire >"$2/etc/apt/apt.conf.d/00here" # proxies, and how old lists may be
}

# inside FOLDER WHO COMMAND...: in the system, with what a login sets and the proxies and package index of this machine.
# Mounts are private to the process and end with it.
inside() {
    local folder=$1 who=$2 settings=() name
    shift 2
    for name in http_proxy https_proxy no_proxy PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_TRUSTED_HOST PIP_CERT \
        PIP_DEFAULT_TIMEOUT PYTEST_ARGS SLOW; do
        [ -z "${!name:-}" ] || settings+=("$name=${!name}")
    done
    unshare --mount --pid --fork sh -ec '
        mkdir -p "$1/dev/pts"; mount -t devpts -o newinstance,ptmxmode=0666 devpts "$1/dev/pts"
        [ -e "$1/dev/ptmx" ] || ln -s pts/ptmx "$1/dev/ptmx"
        mount -t proc proc "$1/proc"; mount -t sysfs -o ro sys "$1/sys" # pocl aborts where it finds no processors
        mount -t tmpfs -o mode=1777 tmpfs "$1/dev/shm"
        folder=$1; who=$2; shift 2
        exec chroot --userspec="$who:$who" --groups= "$folder" env -i "$@"' - "$folder" "$who" \
        HOME="$(home "$who")" USER="$who" LANG=C.UTF-8 PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin \
        ${settings[@]+"${settings[@]}"} "$@" </dev/null
}

home() { # home WHO
    if [ "$suite" = here ]; then echo "$work/home"; elif [ "$1" = root ]; then echo /root; else echo "/home/$1"; fi
}

# note RESULT WHAT: a row of the table, printed at once.
note() {
    table+=("$(printf '%-16s %-8s %-7s %6s s  %s' "$place" "$python" "$1" "$((SECONDS - start))" "$2")")
    echo "environments.sh: ${table[-1]}"
    [ "$1" = well ] || { status=1; tail -n 30 "$log" >&2; }
    start=$SECONDS
}

# try_one SUITE WHO
try_one() {
    local suite=$1 who=$2 folder=$work/system target what asked=()
    place=$suite/$who python=- start=$SECONDS log=$root/build/environments/${place//\//.}
    rm -rf --one-file-system "$folder"
    if [ "$suite" = here ]; then
        folder=/
        asked=("PYTHON=$who") who=root
        rm -rf "$work/home"
        mkdir "$work/home"
    else
        system "$suite" "$folder" || { note FAILED "debootstrap"; return; }
    fi
    [ "$who" = root ] || chroot "$folder" useradd --create-home --uid 1000 "$who"
    git clone --quiet --no-hardlinks "$root" "$folder$(home "$who")/rknnlite"
    chown -R "$(chroot "$folder" id -u "$who"):$(chroot "$folder" id -g "$who")" "$folder$(home "$who")/rknnlite"
    if [ "$who" != root ]; then
        log=$root/build/environments/$suite.$who.nothing
        if inside "$folder" "$who" make -C "$(home "$who")/rknnlite" demo >"$log" 2>&1; then
            note FAILED "make demo without Python succeeds"
        elif grep -q 'apt install python3 python3-venv' "$log"; then
            note well "make demo without Python names the packages"
        else
            note FAILED "make demo without Python says nothing of apt install python3 python3-venv"
        fi
        inside "$folder" root sh -c 'apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
            --no-install-recommends python3 python3-venv' >"$log" 2>&1 || { note FAILED "apt"; return; }
    fi
    for target in $targets; do
        log=$root/build/environments/${place//\//.}.$target
        if inside "$folder" "$who" make -C "$(home "$who")/rknnlite" "$target" ${asked[@]+"${asked[@]}"} \
            >"$log" 2>&1; then what=well; else what=FAILED; fi
        python=$(inside "$folder" "$who" "$(home "$who")/rknnlite/.venv/bin/python" -V 2>/dev/null | cut -d' ' -f2) || python=-
        note "$what" "make $target: $(summary "$target")"
    done
}

# summary TARGET: what the log of a target says in a line.
summary() {
    case $1 in
        test) grep -E '^=*.* (passed|failed|error).* in [0-9.]+s' "$log" | tail -n 1 | tr -d '=' | sed 's/^ *//; s/ *$//' ;;
        demo) grep -A 1 'TOP 5' "$log" | tail -n 1 ;;
        *) tail -n 1 "$log" ;;
    esac || true
}

for one; do try_one "${one%%/*}" "${one#*/}"; done
printf '%s\n' "" "${table[@]}"
exit "$status"
