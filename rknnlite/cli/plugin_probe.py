"""Trying plugins in a process of their own first: one that takes the process with it is left out in this one."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from .. import plugins
from ..native.processes import ending, python_main
from ..spi.plugin_problems import leave_out, watch
from .installed_plugins import installed

__all__ = ["leave_out_what_crashes", "main"]

_TIME_LIMIT = 90.0
_DONE = ["", "done"]
_MOST = 20
"""So many plugins that crash are left out one by one; who has more sees the next crash."""


def leave_out_what_crashes() -> None:
    """Import all plugins, call hooks and probe backends in a child process; what ended it is noted, not entered here."""
    left_out: dict[tuple[str, str], str] = {}
    for _ in range(_MOST):
        step, how = _try(left_out)
        if step is None or not how or step in left_out:
            break
        left_out[step] = how
    leave_out(left_out)


def _try(left_out: dict[tuple[str, str], str]) -> tuple[tuple[str, str] | None, str]:
    """The last step that a child entered, and how it ended; empty when all went well."""
    told = json.dumps([[*step, how] for step, how in left_out.items()])
    command = python_main(__name__, told)
    ended = ""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_TIME_LIMIT,
            check=False,
        )
        steps, ended = (
            done.stdout,
            f"ends the process with {ending(done.returncode)}" if done.returncode else "",
        )
    except subprocess.TimeoutExpired as error:
        steps, ended = error.stdout or b"", f"did not return within {_TIME_LIMIT:.0f} s"
    except OSError:  # no process to be had: everything is tried here
        return None, ""
    lines = steps.decode().splitlines()
    if not lines:
        return None, ""
    plugin, step = json.loads(lines[-1])
    return (None, "") if [plugin, step] == _DONE else ((plugin, step), ended)


def main() -> None:
    """The child, told what it leaves out: says what it is about to enter, and at last that it is done."""
    reports = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what plugins print is no report
    leave_out({(plugin, step): how for plugin, step, how in json.loads(sys.argv[1])})
    watch(lambda plugin, step: _say(reports, [plugin, step]))
    installed()
    for backend in plugins.backends().values():
        plugins.probe(backend)
    _say(reports, _DONE)


def _say(reports: int, step: list[str]) -> None:
    os.write(reports, f"{json.dumps(step)}\n".encode())
