"""A plugin is loaded in a child process first, because the dynamic linker believes whatever a damaged file says.

The linker follows addresses and counts of the file without looking, so a damaged one ends the process that loads it. The child
loads the library and asks for its operator, which is all that happens here before an operator is used. What passed is
remembered by its content, beside the copy that is loaded.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rknnlite.abi import rknn_op as abi
from rknnlite.errors import ParamInvalid
from rknnlite.native import buildcache

__all__ = ["try_loading"]

_SECONDS = 20.0
_PASSED = "loads"
_CHILD = """\
import ctypes, os, sys
entry, size, path, *before = sys.argv[1:]
for name in before:
    try:
        ctypes.CDLL(name, mode=os.RTLD_NOW | ctypes.RTLD_GLOBAL)
    except OSError:
        pass
try:
    function = getattr(ctypes.CDLL(path, os.RTLD_NOW), entry)
except (OSError, AttributeError):  # the parent says what is missing
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
    size = str(abi.CustomOpStruct.op_type.offset + abi.MAX_NAME)
    command = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        _CHILD,
        abi.ENTRY_POINT,
        size,
        str(file),
        *before,
        "libOpenCL.so.1",
    ]
    try:
        child = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ParamInvalid(
            f"{path}: loading it, in a process of its own, did not end within {_SECONDS:g} s"
        ) from None
    except OSError:  # no process is to be had: as before there was a trial
        return
    if child.returncode:
        raise ParamInvalid(
            f"{path}: loading it ended a process of its own by {_end(child.returncode)}: the file is damaged, or what it "
            "does when it is loaded crashes; copy or build it again"
        )
    if kept:
        buildcache.keep(passed, os.fsencode(path.name))


def _end(code: int) -> str:
    try:
        return f"exit code {code}" if code > 0 else signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
