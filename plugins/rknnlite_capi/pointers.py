"""What programs hand to C functions: numbers, pointers, arrays of structures; and the functions as ctypes shows them."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from rknnlite_backend.addresses import is_mapped

from rknnlite.errors import ParamInvalid, RknnError

__all__ = ["CFunction", "address", "c_function", "number", "struct_at", "structs_at"]

S = TypeVar("S", bound=ct.Structure)
T = TypeVar("T")
_INTEGERS = (ct.c_int, ct.c_uint, ct.c_long, ct.c_ulong, ct.c_longlong, ct.c_ulonglong)


def number(given: Any) -> int:
    """A number, or a ctypes object that holds one; raises ParamInvalid."""
    try:
        return int(getattr(given, "value", given))
    except (TypeError, ValueError, OverflowError):
        raise ParamInvalid(f"a {type(given).__name__} where a number belongs") from None


def address(given: Any, size: int = 0, error: type[RknnError] = ParamInvalid, what: str = "a pointer") -> int:
    """Where a pointer points to, be it ``byref``, an array, a pointer, an address; raises ``error``.

    There must be ``size`` bytes: C would die of less.
    """
    try:
        where = ct.cast(given, ct.c_void_p).value
    except (ct.ArgumentError, TypeError):
        raise ParamInvalid(f"a {type(given).__name__} where a pointer belongs") from None
    if not where:
        raise error(f"{what} is NULL")
    if size and not is_mapped(where, size):
        raise error(f"{what} leads nowhere: there are no {size} bytes at {where:#x}")
    return where


def struct_at(kind: type[S], given: Any) -> S:
    """The structure behind a pointer, in place."""
    return kind.from_address(address(given, ct.sizeof(kind)))


def structs_at(kind: type[S], given: Any, count: int) -> list[S]:
    """The structures of an array, in place."""
    where, step = address(given, count * ct.sizeof(kind)), ct.sizeof(kind)
    return [kind.from_address(where + index * step) for index in range(count)]


class CFunction:
    """One function of ``lib``: called like a foreign function of ctypes, with prototypes that a program may set.

    Arguments need none. A pointer comes as ``restype`` says; numbers come as they are.
    """

    def __init__(self, name: str, call: Callable[..., Any], prototypes: dict[tuple[str, str], Any]) -> None:
        self.__name__ = name
        self.__doc__ = call.__doc__
        self._call, self._prototypes = call, prototypes

    def __call__(self, *args: Any) -> Any:
        result = self._call(*args)
        kind = self.restype
        if result is None or isinstance(result, int) or kind is None:
            return result
        if kind is ct.c_void_p or kind in _INTEGERS:
            where = ct.cast(result, ct.c_void_p).value
            return where if kind is ct.c_void_p else where or 0
        return ct.cast(result, kind)

    @property
    def restype(self) -> Any:
        """What a program wants the result to be; None until it says so."""
        return self._prototypes.get((self.__name__, "restype"))

    @restype.setter
    def restype(self, kind: Any) -> None:
        self._prototypes[self.__name__, "restype"] = kind

    @property
    def argtypes(self) -> Any:
        """What a program says of the arguments; anything is taken that can be meant."""
        return self._prototypes.get((self.__name__, "argtypes"))

    @argtypes.setter
    def argtypes(self, kinds: Any) -> None:
        self._prototypes[self.__name__, "argtypes"] = kinds


class c_function(Generic[T]):
    """Makes a method a ``CFunction``; the object keeps the prototypes in ``prototypes``."""

    def __init__(self, method: Callable[..., T]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        if owner is None:
            return self
        return CFunction(self._method.__name__, self._method.__get__(owner), owner.prototypes)
