#!/usr/bin/env python3
"""Completion for bash from the parser: ``tools/completion.py > rknnlite``; goes to bash-completion/completions."""

from __future__ import annotations

import argparse

from man import commands

from rknnlite.cli import parser

HEAD = """\
# bash completion for rknnlite; generated from its parser.
_rknnlite() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "%s --help --version" -- "$cur"))
        return
    fi
    case "$command $prev" in
%s
    esac
    case "$cur" in
        -*)
            case "$command" in
%s
            esac
            return ;;
    esac
    COMPREPLY=($(compgen -f -- "$cur"))
}
complete -o filenames -F _rknnlite rknnlite
"""


def choices(name: str, sub: argparse.ArgumentParser) -> list[str]:
    """A line per option whose values are known."""
    lines = []
    for action in sub._actions:
        if action.choices and action.option_strings:
            pattern = "|".join(f'"{name} {option}"' for option in action.option_strings)
            words = " ".join(map(str, action.choices))
            lines.append(f'        {pattern}) COMPREPLY=($(compgen -W "{words}" -- "$cur")); return ;;')
    return lines


def options(sub: argparse.ArgumentParser) -> str:
    """All options of a command that its help shows."""
    shown = (a for a in sub._actions if a.help != argparse.SUPPRESS)
    return " ".join(option for action in shown for option in action.option_strings)


def script() -> str:
    """The whole file."""
    found = commands(parser())
    values = [line for name, sub in found.items() for line in choices(name, sub)]
    flags = [
        f'                {name}) COMPREPLY=($(compgen -W "{options(sub)}" -- "$cur")) ;;'
        for name, sub in found.items()
    ]
    return HEAD % (" ".join(found), "\n".join(values), "\n".join(flags))


if __name__ == "__main__":
    print(script(), end="")
