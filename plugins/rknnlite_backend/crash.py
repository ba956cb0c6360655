"""What a crash inside C code says: which library or plugin, which function, operator and node.

Calls into a library go through a function whose name says what is called; when the process dies of a signal,
CPython's ``faulthandler`` writes the names of the functions that were being run to stderr::

    Fatal Python error: Segmentation fault
    Current thread 0x00007f... (most recent call first):
      File "plugin /usr/lib/rknpu/op_plugins/librkcst_x.so", line 45 in operator cstX at node "head"

    Fatal Python error: Segmentation fault
    Current thread 0x00007f... (most recent call first):
      File ".../rknnlite_rknnrt/context.py", line 182 in backend rknnrt: rknn_run
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, cast

__all__ = ["caller", "calls", "name_crashes", "named"]

Method = TypeVar("Method", bound=Callable[..., Any])


def _call(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)


def caller(who: str, what: str) -> Callable[..., Any]:
    """A function that calls its first argument with the others, and stands in the report of a crash as ``what``."""
    return FunctionType(_call.__code__.replace(co_filename=who, co_name=what), globals())


def named(who: str, what: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function through such a caller, under its own name."""
    through: Any = functools.partial(caller(who, what), function)
    through.__name__ = what
    return cast("Callable[..., Any]", through)


def calls(what: str) -> Callable[[Method], Method]:
    """Decorator of a method that calls into C at every frame: it stands there under this name, which costs nothing."""

    def renamed(method: Method) -> Method:
        method.__code__ = method.__code__.replace(co_name=what)
        return method

    return renamed


def name_crashes() -> None:
    """Have crashes reported, unless the program has a handler of its own for them."""
    import _signal  # type: ignore[import-not-found]  # signal makes enumerations of it, which cost more than all this
    import faulthandler

    if not faulthandler.is_enabled() and _signal.getsignal(_signal.SIGSEGV) == _signal.SIG_DFL:
        faulthandler.enable(file=2)  # the descriptor: sys.stderr may be none, or no file
