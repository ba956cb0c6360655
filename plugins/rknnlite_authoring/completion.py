"""``rknnlite completion``: what a shell needs to complete commands, options and their values; written by shtab."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rknnlite.extras import missing
from rknnlite.spi.command import Command, Console, Exit

__all__ = ["COMMAND"]

_SHELLS = ("bash", "zsh", "fish")
_FILES = {"MODEL", "REFERENCE", "INPUT", "FILE", "NETWORK", "PREFIX"}
"""Words in place of arguments that are text to argparse and name files, or begin a file's name."""

_ONE_VALUE = '_choices"\n  current_action_choices="${!current_action_choices_var}"'
_ALL_VALUES = """_choices[@]"\n  current_action_choices=$(printf '%s\\n' "${!current_action_choices_var}")"""
"""What Debian 12's shtab (1.5) writes for bash, which then offers the first of several values alone; 1.6 does not."""


class Completion(Command):
    """See the module."""

    name = "completion"
    help = "completion of commands and options, for bash, zsh or fish"
    examples = (
        "rknnlite completion bash > ~/.local/share/bash-completion/completions/rknnlite",
        "rknnlite completion zsh > ~/.zfunc/_rknnlite",
        "rknnlite completion fish > ~/.config/fish/completions/rknnlite.fish",
    )

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("shell", choices=_SHELLS, help="the shell that is to complete")

    def run(self, args: argparse.Namespace, console: Console) -> int:
        script = _script(args.shell, args.all_commands())
        console.report({"shell": args.shell, "script": script}, script.rstrip("\n"))
        return Exit.OK


def _script(shell: str, top: Any) -> str:
    try:
        import shtab
    except ImportError as error:
        raise missing("completion", "completion is written by shtab", error) from None
    if shell not in shtab.SUPPORTED_SHELLS:
        known = ", ".join(name for name in shtab.SUPPORTED_SHELLS if name in _SHELLS)
        raise missing("completion", f"shtab {shtab.__version__} knows {known}; {shell} needs a newer one")
    for sub in top.commands.values():
        for action in sub.declared:
            if action.choices is None and _names_a_file(action):
                action.complete = shtab.FILE
    return str(shtab.complete(top, shell)).replace(_ONE_VALUE, _ALL_VALUES)


def _names_a_file(action: argparse.Action) -> bool:
    word: Any = action.metavar
    return action.nargs != 0 and (action.type is Path or word in _FILES)


COMMAND = Completion()
