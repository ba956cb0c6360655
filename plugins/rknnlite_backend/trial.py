"""A library is loaded in a child process first, because the dynamic linker believes whatever a damaged file says.

The linker follows addresses and counts of the file without looking, so a damaged one ends the process that loads it. Damage that
shows at few addresses only may still pass.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rknnlite.native.processes import ending
from rknnlite.native.remembered import recall, remember

__all__ = ["check_trial", "end_of_trial"]

_SECONDS = 20.0
_TRIALS = 3
"""Children, at the same time: whether damage shows may depend on the addresses that the kernel draws for each."""
_CHILD = """\
import contextlib, ctypes, os, sys
entry, size, path, *before = sys.argv[1:]
def supply(name):
    with contextlib.suppress(OSError):
        ctypes.CDLL(name, mode=os.RTLD_NOW | ctypes.RTLD_GLOBAL)
for name in before:
    supply(name)
try:
    library = ctypes.CDLL(path, os.RTLD_NOW)
except OSError:
    supply("libOpenCL.so.1")  # which few plugins want, and takes long to load
    try:
        library = ctypes.CDLL(path, os.RTLD_NOW)
    except OSError:  # the parent says what is missing
        sys.exit(0)
function = getattr(library, entry, None) if entry else None
if function is None:
    sys.exit(0)
function.restype = ctypes.c_void_p
answer = function()
if answer:
    ctypes.string_at(answer, int(size))
"""


def end_of_trial(file: Path, before: Sequence[str] = (), entry: str = "", size: int = 0) -> str:
    """How loading ``file`` ended a child; empty when it did not, or when no process is to be had.

    Args:
        before: libraries that are loaded first, for all to see.
        entry: a function of the library, which answers the address of ``size`` bytes that the child reads.
    """
    command = [sys.executable, "-I", "-S", "-c", _CHILD, entry, str(size), str(file), *before]
    children: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(_TRIALS if sys.executable else 0):
            quiet = subprocess.DEVNULL
            children.append(subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet))
        codes = [child.wait(_SECONDS) for child in children]
    except subprocess.TimeoutExpired:
        return f"did not end within {_SECONDS:g} s"
    except OSError:
        return ""
    finally:
        for child in children:
            child.kill()
            child.wait()
    return next((f"ended with {ending(code)}" for code in codes if code), "")


def check_trial(file: Path) -> str:
    """The same, remembered in the cache folder until the file changes."""
    path = os.path.realpath(file)
    status = Path(path).stat()
    state = f"{status.st_size} {status.st_mtime_ns} {status.st_ino}"
    known = recall("libraries").get(path)
    if isinstance(known, list) and len(known) == 2 and known[0] == state:
        return str(known[1])
    end = end_of_trial(Path(path))
    remember("libraries", path, [state, end])
    return end
