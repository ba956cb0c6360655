#!/usr/bin/env python3
"""Man pages from the parser: ``tools/man.py FOLDER`` writes rknnlite.1 and a page per command."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from rknnlite import __version__
from rknnlite.cli import parser
from rknnlite.config import KEYS


def commands(top: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parsers of all commands by name."""
    return next(dict(a.choices) for a in top._actions if isinstance(a, argparse._SubParsersAction))


def escape(text: str) -> str:
    """Text that troff leaves alone."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def head(name: str) -> str:
    """The first line; SOURCE_DATE_EPOCH makes builds repeatable."""
    date = time.strftime("%Y-%m-%d", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())))
    return f'.TH "{name.upper()}" "1" "{date}" "rknnlite {__version__}" "User Commands"'


def option(action: argparse.Action) -> str:
    """An option or argument and what it takes."""
    takes = action.metavar or (action.dest.upper() if action.nargs != 0 else "")
    if action.choices and not action.metavar:
        takes = "{" + ",".join(map(str, action.choices)) + "}"
    words = " ".join(takes) if isinstance(takes, tuple) else str(takes)
    if not action.option_strings:
        return f"\\fI{escape(words)}\\fR"
    names = ", ".join(f"\\fB{escape(name)}\\fR" for name in action.option_strings)
    return names + (f" \\fI{escape(words)}\\fR" if action.nargs != 0 else "")


def arguments(of: argparse.ArgumentParser) -> Iterator[str]:
    """All arguments of a command, group by group."""
    for group in of._action_groups:
        shown = [a for a in group._group_actions if a.help != argparse.SUPPRESS]
        if shown and not any(isinstance(a, argparse._SubParsersAction) for a in shown):
            yield f'.SH "{(group.title or "options").upper()}"'
            for action in shown:
                text = (action.help or "") % {"default": action.default, "prog": of.prog}
                yield f".TP\n{option(action)}\n{escape(text)}"


def page(of: argparse.ArgumentParser, summary: str) -> str:
    """One page."""
    name = of.prog.replace(" ", "-")
    usage = " ".join(of.format_usage().split()[1:])
    parts = [head(name), f".SH NAME\n{escape(name)} \\- {escape(summary)}", f".SH SYNOPSIS\n{escape(usage)}"]
    parts += [f".SH DESCRIPTION\n{escape(of.description or '')}", *arguments(of)]
    if of.epilog:
        title = "EXAMPLES" if of.epilog.startswith("examples") else "NOTES"
        body = escape(of.epilog.replace("examples:", "", 1).strip("\n"))
        parts.append(f".SH {title}\n.nf\n{body}\n.fi")
    return "\n".join(parts) + "\n"


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    top = parser()
    found = commands(top)
    helps = {a.dest: a.help or "" for a in top._subparsers._group_actions[0]._choices_actions}  # type: ignore[union-attr]
    for name, sub in found.items():
        (folder / f"rknnlite-{name}.1").write_text(page(sub, helps[name]), encoding="utf-8")
    listed = "\n".join(
        f".TP\n\\fBrknnlite\\-{escape(name)}\\fR(1)\n{escape(text)}" for name, text in helps.items()
    )
    variables = "\n".join(f".TP\n\\fB{key.variable}\\fR\n{escape(key.meaning)}" for key in KEYS.values())
    text = page(top, "run, measure and look into Rockchip .rknn models")
    text = text.replace(".SH NOTES", f".SH COMMANDS\n{listed}\n.SH ENVIRONMENT\n{variables}\n.SH NOTES")
    (folder / "rknnlite.1").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/man"))
