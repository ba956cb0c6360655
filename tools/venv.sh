#!/usr/bin/env bash
# Make a virtual environment:   tools/venv.sh FOLDER [PYTHON]
#
# Needs Python 3.9 or newer with venv and ensurepip. Debian keeps those two in python3-venv; where they are
# missing, the package is installed with apt, as root or through sudo.
set -euo pipefail

folder=$1
python=${2:-python3}

say() { echo "venv.sh: $*" >&2; }

complete() { "$1" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; }

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
        sudo "$@"
    else
        return 1
    fi
}

install() {
    command -v apt-get >/dev/null || return 1
    say "installing $* with apt"
    as_root apt-get update -qq >&2 &&
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2
}

# A python3 from elsewhere (pyenv, conda) that is too old or incomplete gives way to the system's own.
choose() {
    if complete "$python"; then
        return
    fi
    if [ "$python" = python3 ]; then
        python=/usr/bin/python3
        complete "$python" && return
        install python3 python3-venv || true
        complete "$python" && return
        say "no Python 3.9 or newer with venv and ensurepip here; on Debian: apt install python3 python3-venv"
    else
        say "$python is missing, older than 3.9, or lacks venv or ensurepip; choose another with PYTHON=..., or on Debian: apt install ${python##*/}-venv"
    fi
    exit 1
}

choose
"$python" -m venv --clear "$folder"
# The first that soon gives up a wrong choice: Debian 12's own takes many minutes to choose what the tests are run with.
"$folder/bin/python" -m pip install --quiet 'pip>=23.1'
