"""Addresses of numpy buffers, as cheaply as ctypes allows, and numpy views of foreign addresses."""

from __future__ import annotations

import ctypes as ct
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "Region", "address", "view"]

Array = NDArray[Any]
_from_buffer = ct.c_char.from_buffer
_addressof = ct.addressof


def address(array: Array) -> int:
    """Address of the first byte of a C-contiguous array; a third of what ``array.ctypes.data`` costs."""
    try:
        return _addressof(_from_buffer(array))  # type: ignore[arg-type]
    except (TypeError, ValueError):  # read-only, or empty
        return int(array.ctypes.data)


class Region:
    """Foreign bytes that numpy can look at; whatever array is made of it keeps ``owner`` alive."""

    __slots__ = ("__array_interface__", "__weakref__", "owner")

    def __init__(self, where: int, shape: tuple[int, ...], dtype: np.dtype[Any], owner: object) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "data": (where, False),
            "shape": shape,
            "typestr": dtype.str,
            "version": 3,
        }


def view(where: int, shape: tuple[int, ...], dtype: np.dtype[Any], owner: object = None) -> Array:
    """An array on foreign bytes; the caller says how long they stay (``owner``)."""
    return np.asarray(Region(where, shape, dtype, owner))
