"""Which devices of this machine lead to an NPU, and through which driver."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rknnlite.errors import DeviceUnavailable, RknnError

from ..transport import Transport
from .device import DriverVersion, KernelDevice
from .rknpu import RknpuTransport
from .rocket import RocketTransport

__all__ = ["FoundDevice", "find_device", "open_transport"]

_TRANSPORTS = {"rocket": RocketTransport, "rknpu": RknpuTransport}
_PLACES = (("/dev/accel", r"accel\d+"), ("/dev/dri", r"renderD\d+"), ("/dev/dri", r"card\d+"))


@dataclass(frozen=True)
class FoundDevice:
    """A device of the NPU's. ``driver`` is None where it cannot be opened, ``reason`` then says why."""

    path: str
    driver: DriverVersion | None
    reason: str = ""


def _paths() -> Iterator[str]:
    for folder, name in _PLACES:
        try:
            found = [path.name for path in Path(folder).iterdir() if re.fullmatch(name, path.name)]
        except OSError:
            continue
        yield from (f"{folder}/{name}" for name in sorted(found, key=lambda text: (len(text), text)))


def find_device() -> FoundDevice | None:
    """The first device with a driver for NPUs; else one that could not be asked; None where there is none."""
    denied = None
    for path in _paths():
        try:
            device = KernelDevice(path)
        except RknnError as error:
            denied = denied or FoundDevice(path, None, str(error))
            continue
        device.close()
        if device.driver.name in _TRANSPORTS:
            return FoundDevice(path, device.driver)
    return denied


def open_transport(path: str) -> Transport:
    """Raises DeviceUnavailable, RknnError."""
    device = KernelDevice(path)
    try:
        kind = _TRANSPORTS.get(device.driver.name)
        if kind is None:
            raise DeviceUnavailable(f"{path} has the driver {device.driver}, which is none of an NPU")
        return kind(device)
    except BaseException:
        device.close()
        raise
