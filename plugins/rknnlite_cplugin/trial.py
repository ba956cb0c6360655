"""A plugin is loaded in a child process first, because the dynamic linker believes whatever a damaged file says.

The linker follows addresses and counts of the file without looking, so a damaged one ends the process that loads it. The child
loads the library and asks for its operator, which is all that happens here before an operator is used. What passed is
remembered by its content, beside the copy that is loaded. Damage that shows at few addresses only may still pass.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rknnlite_programs import buildcache

from rknnlite.abi import rknn_op as abi
from rknnlite.errors import ParamInvalid

__all__ = ["try_loading"]

_SECONDS = 20.0
_TRIALS = 3
"""Children, at the same time: whether damage shows may depend on the addresses that the kernel draws for each."""
_PASSED = "loads"
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
function = getattr(library, entry, None)
if function is None:
    sys.exit(0)
function.restype = ctypes.c_void_p
answer = function()
if answer:
    ctypes.string_at(answer, int(size))
"""


def try_loading(path: Path, file: Path, before: Sequence[str]) -> None:
    """Load ``file`` in a child, with the libraries ``before`` it; raises ParamInvalid, which names ``path``, where that ends it."""
    passed = file.with_name(_PASSED)
    kept = buildcache.is_kept(file)
    if kept and passed.exists():
        return
    size = str(ctypes.sizeof(abi.CustomOpStruct))
    command = [sys.executable, "-I", "-S", "-c", _CHILD, abi.ENTRY_POINT, size, str(file), *before]
    children: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(_TRIALS):
            quiet = subprocess.DEVNULL
            children.append(subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet))
        codes = [child.wait(_SECONDS) for child in children]
    except subprocess.TimeoutExpired:
        raise ParamInvalid(
            f"{path}: loading it, in a process of its own, did not end within {_SECONDS:g} s"
        ) from None
    except OSError:  # no process is to be had: as before there was a trial
        return
    finally:
        for child in children:
            child.kill()
            child.wait()
    if any(codes):
        raise ParamInvalid(
            f"{path}: loading it ended a process of its own by {_end(next(filter(None, codes)))}: the file is damaged, or what "
            "it does when it is loaded crashes; copy or build it again"
        )
    if kept:
        buildcache.keep(passed, os.fsencode(path.name))


def _end(code: int) -> str:
    try:
        return f"exit code {code}" if code > 0 else signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
