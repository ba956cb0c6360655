"""Which devices of this machine lead to an NPU, and through which driver."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rknnlite.errors import DeviceUnavailable, RknnError

from ..transport import Transport
from .device import DriverVersion, KernelDevice
from .device_nodes import device_nodes
from .one_job import FAMILIES, OneJobAtATime
from .rknpu import RknpuTransport
from .rknpu_buffers import RknpuNode
from .rocket import RocketTransport

__all__ = ["FoundDevice", "find_device", "open_transport"]

_TRANSPORTS = {"rocket": RocketTransport, "rknpu": RknpuTransport}


@dataclass(frozen=True)
class FoundDevice:
    """A device of the NPU's. ``driver`` is None where it cannot be opened, ``reason`` then says why."""

    path: str
    driver: DriverVersion | None
    reason: str = ""


def _device(path: str) -> KernelDevice:
    """Raises DeviceUnavailable."""
    return RknpuNode(path) if Path(path).name == "rknpu" else KernelDevice(path)


def find_device() -> FoundDevice | None:
    """The first device with a driver for NPUs; else one that could not be asked; None where there is none."""
    denied = None
    for path, _ in device_nodes():
        try:
            device = _device(path)
        except RknnError as error:
            denied = denied or FoundDevice(path, None, str(error))
            continue
        device.close()
        if device.driver.name in _TRANSPORTS:
            return FoundDevice(path, device.driver)
    return denied


def open_transport(path: str, family: str = "") -> Transport:
    """For programs of an NPU design, by the container's word for it. Raises DeviceUnavailable, RknnError."""
    device = _device(path)
    try:
        kind = _TRANSPORTS.get(device.driver.name)
        if kind is None:
            raise DeviceUnavailable(f"{path} has the driver {device.driver}, which is none of an NPU")
        found = kind(device)
        return OneJobAtATime(found, path) if family in FAMILIES else found
    except BaseException:
        device.close()
        raise
