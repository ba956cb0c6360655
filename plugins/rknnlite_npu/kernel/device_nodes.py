"""Device nodes that may lead to an NPU, as the kernel's own files tell: no device is opened for it.

To open a graphics card would wake it, and takes long; so those whose driver is known to be another's are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["DRIVERS", "DeviceNode", "device_nodes"]

DRIVERS = ("rocket", "rknpu")
_CLASSES = Path("/sys/class")
_NODE = "/dev/rknpu"
"""No DRM device: of kernels for RV1103 and RV1106."""
_PLACES = (
    ("/dev/accel", r"accel\d+", "accel"),
    ("/dev/dri", r"renderD\d+", "drm"),
    ("/dev/dri", r"card\d+", "drm"),
)


class DeviceNode(NamedTuple):
    """A node; ``driver`` is empty where the kernel does not tell it, as mainline's ``rocket`` does not."""

    path: str
    driver: str


def device_nodes() -> Iterator[DeviceNode]:
    """Those of ``DRIVERS``, and those that have to be opened to be known."""
    for folder, pattern, kind in _PLACES:
        try:
            names = [path.name for path in Path(folder).iterdir() if re.fullmatch(pattern, path.name)]
        except OSError:
            continue
        for name in sorted(names, key=lambda text: (len(text), text)):
            driver = _driver(kind, name)
            if driver in ("", *DRIVERS):
                yield DeviceNode(f"{folder}/{name}", driver)
    if Path(_NODE).exists():
        yield DeviceNode(_NODE, "rknpu")


def _driver(kind: str, name: str) -> str:
    try:
        return (_CLASSES / kind / name / "device" / "driver").readlink().name.lower()
    except OSError:
        return ""
