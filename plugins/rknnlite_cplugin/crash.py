"""What a crash inside a plugin says: which plugin, which operator, which node.

Nothing is done per call. Calls into a plugin go through a function whose name says what is called; when the process
dies of a signal, CPython's ``faulthandler`` writes the names of the functions that were being run to stderr::

    Fatal Python error: Segmentation fault
    Current thread 0x00007f... (most recent call first):
      File "plugin /usr/lib/rknpu/op_plugins/librkcst_x.so", line 45 in operator cstX at node "head"
"""

from __future__ import annotations

import faulthandler
import signal
from collections.abc import Callable
from types import FunctionType
from typing import Any

__all__ = ["caller", "name_crashes"]


def _call(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)


def caller(plugin: object, what: str) -> Callable[..., Any]:
    """A function that calls its first argument with the others, and stands in the report of a crash as ``what``."""
    code = _call.__code__.replace(co_filename=f"plugin {plugin}", co_name=what)
    return FunctionType(code, globals())


def name_crashes() -> None:
    """Have crashes reported, unless the program has a handler of its own for them."""
    if not faulthandler.is_enabled() and signal.getsignal(signal.SIGSEGV) is signal.SIG_DFL:
        faulthandler.enable(file=2)  # the descriptor: sys.stderr may be none, or no file
