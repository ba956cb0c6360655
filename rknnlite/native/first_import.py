"""The first import of a plugin that is not ours, in a process of its own: it may crash that one, not this.

What ended that process, or that nothing did, is kept in ``plugins.json`` in the cache folder, beside the sizes and times of the
files that were imported: when they change the plugin is tried again. Where nothing can be kept it is tried every time.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .processes import ending, python_main
from .remembered import recall, remember

__all__ = ["main", "why_not_here"]

_TIME_LIMIT = 60.0
_MOST_FILES = 2000
_DONE = "done"
_trying = False
"""This is the process that tries one: it enters everything itself."""


def why_not_here(name: str, value: str) -> tuple[str, str]:
    """What would come of importing ``value`` (``module:attribute``) and calling its hooks: the step and its end; or two ``""``."""
    files = "" if _trying or not sys.executable else _state(value)
    if not files:
        return "", ""
    known = recall("plugins").get(name)
    if isinstance(known, list) and len(known) == 3 and known[0] == files:
        return str(known[1]), str(known[2])
    found = _tried(value)
    if found is None:
        return "", ""
    remember("plugins", name, [files, *found])
    return found


def _tried(value: str) -> tuple[str, str] | None:
    """The step that ended a child and how; two ``""`` when all went well, None when there was no child to be had."""
    with tempfile.TemporaryFile() as steps:
        try:
            child = subprocess.Popen(
                python_main(__name__, value, str(steps.fileno())),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[steps.fileno()],
                start_new_session=True,
            )
        except OSError:
            return None
        try:
            status = child.wait(_TIME_LIMIT)
            end = f"ends the process with {ending(status)}"
        except subprocess.TimeoutExpired:
            end = f"did not return within {_TIME_LIMIT:.0f} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # what it started, too
            child.wait()
        steps.seek(0)
        lines = steps.read().decode(errors="replace").split()
    if not lines:  # it never came to the plugin
        return None
    return ("", "") if lines[-1] == _DONE else (lines[-1], end)


def main() -> None:
    """The child: says what it is about to enter, and at last that it is done. Errors are told where they count."""
    global _trying
    _trying = True
    from ..extras import EntryPoint

    value, steps = sys.argv[1], int(sys.argv[2])
    os.set_inheritable(steps, False)
    _say(steps, "import")
    with contextlib.suppress(Exception, SystemExit):
        plugin = EntryPoint("it", value).load()
        things = {name: getattr(plugin, name, None) for name in dir(plugin)}
        for hook in [
            name for name, thing in things.items() if "rknnlite_impl" in getattr(thing, "__dict__", ())
        ]:
            _say(steps, hook)
            with contextlib.suppress(Exception, SystemExit):
                getattr(plugin, hook)(lambda offered: None)
    _say(steps, _DONE)
    os._exit(0)  # threads that it started are its own affair


def _say(steps: int, step: str) -> None:
    os.write(steps, f"{step}\n".encode())


def _state(value: str) -> str:
    """What tells whether the files of an entry point are those of before; empty where there are none to be found."""
    try:
        spec = importlib.util.find_spec(value.partition(":")[0].partition(".")[0])
    except (ImportError, ValueError):
        return ""
    if spec is None or (not spec.has_location and not spec.submodule_search_locations):
        return ""
    state = hashlib.sha256(f"{sys.version} {value}".encode())
    for number, path in enumerate(_files(spec.origin, spec.submodule_search_locations or ())):
        if number == _MOST_FILES:
            break
        with contextlib.suppress(OSError):
            found = Path(path).stat()
            state.update(f"{path} {found.st_size} {found.st_mtime_ns}\n".encode(errors="surrogateescape"))
    return state.hexdigest()


def _files(origin: str | None, folders: Any) -> Iterator[str]:
    if origin:
        yield origin
    for folder in folders:
        for place, below, names in os.walk(folder):
            below[:] = sorted(name for name in below if name != "__pycache__")
            yield from (f"{place}/{name}" for name in sorted(names) if not name.endswith(".pyc"))
