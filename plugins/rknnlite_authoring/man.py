"""``rknnlite man``: manual pages, written from the parser of the commands."""

from __future__ import annotations

import argparse
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rknnlite._version import __version__
from rknnlite.config import KEYS
from rknnlite.files.writing import write_file
from rknnlite.spi.command import Command, Console, Exit

__all__ = ["COMMAND"]


class Man(Command):
    """See the module."""

    name = "man"
    help = "write the manual pages of all commands into a folder"
    examples = ("rknnlite man ~/.local/share/man/man1 && man rknnlite-run",)

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("folder", type=Path, metavar="FOLDER", help="made where it is missing")

    def run(self, args: argparse.Namespace, console: Console) -> int:
        written = _pages(args.all_commands())
        args.folder.mkdir(parents=True, exist_ok=True)
        for name, text in written.items():
            write_file(args.folder / name, text.encode())
        console.report(
            {"folder": args.folder, "pages": list(written)}, f"{len(written)} pages are in {args.folder}"
        )
        return Exit.OK


def _pages(top: Any) -> dict[str, str]:
    """File name -> page: ``rknnlite.1`` and one per command."""
    helps = {name: sub.get_default("instance").help for name, sub in top.commands.items()}
    pages = {f"rknnlite-{name}.1": _page(sub, helps[name]) for name, sub in top.commands.items()}
    listed = "\n".join(
        f".TP\n\\fBrknnlite\\-{_escape(name)}\\fR(1)\n{_escape(text)}" for name, text in helps.items()
    )
    variables = "\n".join(f".TP\n\\fB{key.variable}\\fR\n{_escape(key.meaning)}" for key in KEYS.values())
    text = _page(top, "run, measure and look into Rockchip .rknn models")
    between = f".SH COMMANDS\n{listed}\n.SH ENVIRONMENT\n{variables}\n.SH NOTES"
    return {**pages, "rknnlite.1": text.replace(".SH NOTES", between)}


def _escape(text: str) -> str:
    """Text that troff leaves alone."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def _head(name: str) -> str:
    """The first line; SOURCE_DATE_EPOCH makes builds repeatable."""
    date = time.strftime("%Y-%m-%d", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())))
    return f'.TH "{name.upper()}" "1" "{date}" "rknnlite {__version__}" "User Commands"'


def _option(action: argparse.Action) -> str:
    """An option or argument and what it takes."""
    takes = action.metavar or (action.dest.upper() if action.nargs != 0 else "")
    if action.choices and not action.metavar:
        takes = "{" + ",".join(map(str, action.choices)) + "}"
    words = " ".join(takes) if isinstance(takes, tuple) else str(takes)
    if not action.option_strings:
        return f"\\fI{_escape(words)}\\fR"
    names = ", ".join(f"\\fB{_escape(name)}\\fR" for name in action.option_strings)
    return names + (f" \\fI{_escape(words)}\\fR" if action.nargs != 0 else "")


def _arguments(of: Any) -> Iterator[str]:
    """All arguments of a command, group by group, those without a name first."""
    groups: dict[str, list[argparse.Action]] = {}
    for action in of.declared:
        if action.help != argparse.SUPPRESS and not (of.commands and not action.option_strings):
            groups.setdefault(action.container.title or "options", []).append(action)
    for title, actions in sorted(groups.items(), key=lambda group: bool(group[1][0].option_strings)):
        yield f'.SH "{title.upper()}"'
        for action in actions:
            text = (action.help or "") % {"default": action.default, "prog": of.prog}
            yield f".TP\n{_option(action)}\n{_escape(text)}"


def _page(of: Any, summary: str) -> str:
    """One page."""
    name = of.prog.replace(" ", "-")
    of.color = False  # Python 3.14 colours what goes to a terminal
    usage = " ".join(of.format_usage().split()[1:])
    parts = [
        _head(name),
        f".SH NAME\n{_escape(name)} \\- {_escape(summary)}",
        f".SH SYNOPSIS\n{_escape(usage)}",
    ]
    parts += [f".SH DESCRIPTION\n{_escape(of.description or '')}", *_arguments(of)]
    if of.epilog:
        title = "EXAMPLES" if of.epilog.startswith("examples") else "NOTES"
        body = _escape(of.epilog.replace("examples:", "", 1).strip("\n"))
        parts.append(f".SH {title}\n.nf\n{body}\n.fi")
    return "\n".join(parts) + "\n"


COMMAND = Man()
