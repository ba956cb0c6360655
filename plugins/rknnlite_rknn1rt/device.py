"""Which devices a host has: RK3399Pro's own NPU, compute sticks and boards behind USB."""

from __future__ import annotations

import ctypes as ct

from rknnlite.errors import RknnError
from rknnlite.spi import Device

from . import abi
from .errors import check
from .loader import Library

__all__ = ["find_devices"]


def find_devices(library: Library) -> list[Device]:
    """All devices of a host; none on a board, whose NPU needs no name. Raises the typed error of the call."""
    if library.flavour is abi.Flavour.BOARD:
        return []
    found = abi.DevicesId()
    check("rknn_find_devices", library.function("rknn_find_devices")(ct.byref(found)))
    if found.n_devices > abi.MAX_DEVICES:
        raise RknnError(
            f"the library answers {found.n_devices} devices; at most {abi.MAX_DEVICES} are possible"
        )
    return [
        Device(_text(found.ids[place].value), _text(found.types[place].value).lower())
        for place in range(found.n_devices)
    ]


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
