"""The library and the context as programs get them that call C functions themselves (``rknn_runtime.lib``).

They expect what the vendor's package hands out: functions with declared argument types, and a context that is a
plain number. Ours are a ctypes object of their own, so that prototypes a program sets disturb nobody, and a
number that C gets as 0 once its context is gone, which is an error there; a stale one would kill the process.
"""

from __future__ import annotations

import ctypes as ct
from pathlib import Path
from typing import Any

from .abi import CONTEXT, PROTOTYPES

__all__ = ["ContextNumber", "open_public"]


class ContextNumber(int):
    """``rknn_context`` as a number; ``value`` is 0 as soon as the context is destroyed."""

    cell: Any

    def __new__(cls, cell: Any) -> ContextNumber:
        """``cell`` is the ctypes object that holds the number."""
        number = super().__new__(cls, cell.value)
        number.cell = cell
        return number

    @property
    def value(self) -> int:
        """The number for C at this moment."""
        return int(self.cell.value)


class _ContextArgument:
    """Type of the first argument: a ``ContextNumber``, another number, or a ctypes object of the program's."""

    @classmethod
    def from_param(cls, given: Any) -> Any:
        return given.cell if isinstance(given, ContextNumber) else CONTEXT.from_param(given)


def open_public(path: Path) -> ct.CDLL:
    """The library with the prototypes of the C API; any pointer is taken for a pointer."""
    dll = ct.CDLL(str(path))
    for name, (result, arguments) in PROTOTYPES.items():
        function = getattr(dll, name, None)
        if function is not None:
            function.restype, function.argtypes = result, [_loose(kind) for kind in arguments]
    return dll


def _loose(kind: Any) -> Any:
    if kind is CONTEXT:
        return _ContextArgument
    return ct.c_void_p if issubclass(kind, ct._Pointer) else kind
