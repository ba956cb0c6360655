"""Which coprocessors are plugged in."""

from __future__ import annotations

import ctypes as ct
from typing import Any

from rknnlite.abi.rknn3_enums import RKNN3_MAX_DEVS, RKNN3_MAX_NPU_NODE_NUM
from rknnlite.abi.rknn3_types import RKNN3Devices
from rknnlite.errors import DeviceUnmatch, RknnError
from rknnlite.spi import Device

from .errors import check
from .loader import Library
from .native_context import text

__all__ = ["choose_device", "find_devices"]


def find_devices(library: Library) -> list[Device]:
    """All coprocessors; an empty list also where the runtime cannot tell. Raises the typed error of the call."""
    found = RKNN3Devices()
    check("rknn3_find_devices", library.start.function("rknn3_find_devices")(ct.byref(found)))
    if found.n_devices > RKNN3_MAX_DEVS:
        raise RknnError(
            f"the library answers {found.n_devices} devices; at most {RKNN3_MAX_DEVS} are possible"
        )
    return [_device(device) for device in found.devices[: found.n_devices]]


def _device(device: Any) -> Device:
    memory = device.mem_info
    nodes = memory.node_mem_info[: min(memory.node_num, RKNN3_MAX_NPU_NODE_NUM)]
    total, free = sum(node.total for node in nodes), sum(node.free for node in nodes)
    return Device(text(device.id), text(device.type).lower(), total, free)


def choose_device(library: Library, device_id: str | None, soc: str | None) -> str | None:
    """The device to open when a SoC is meant; None leaves it to the library. Raises DeviceUnmatch."""
    if soc is None:
        return device_id
    try:
        there = [device for device in find_devices(library) if device_id in (None, device.id)]
    except RknnError:  # a runtime that cannot list them may still open one
        return device_id
    fitting = [device for device in there if device.soc == soc]
    if there and not fitting:
        listed = ", ".join(f"{device.id} ({device.soc})" for device in there)
        raise DeviceUnmatch(f"{soc} is wanted, plugged in are {listed}")
    return fitting[0].id if fitting and device_id is None and len(there) > 1 else device_id
