"""What ``rknnlite doctor`` says of the NPU's device: who may use it, and what was found of models on it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

from rknnlite.native.board import Board
from rknnlite.spi.finding import Finding, Level

from .device_nodes import DRIVERS, device_nodes
from .devices import find_device
from .permissions import remedy
from .verdicts import device_key, verdicts_on

__all__ = ["findings"]

_TOPIC = "NPU without the vendor's library"
_SHOWN = 5


def _denied(reason: str) -> bool:
    """Whether the device is there, and not for this user; a container without the right to it is told EPERM."""
    return any(os.strerror(number) in reason for number in (errno.EACCES, errno.EPERM))


def findings(board: Board) -> Iterator[Finding]:
    """Of this machine; nothing where it has no such device."""
    if not any(True for _ in device_nodes()):
        return
    found = find_device()
    if found is None:
        return
    if found.driver is None:
        known = any(node.path == found.path and node.driver in DRIVERS for node in device_nodes())
        if known or "accel" in found.path:
            what = remedy(found.path) if _denied(found.reason) else "see dmesg"
            yield Finding(_TOPIC, Level.WARN, found.reason.partition(";")[0], what)
        return
    yield Finding(
        _TOPIC,
        Level.OK,
        f"{found.path} can be used, driver {found.driver}; experimental, see docs/open-npu.md",
    )
    soc = board.soc()
    if soc is None:
        return
    kept = verdicts_on(device_key(str(found.driver), soc.name))
    agreeing = [verdict for verdict in kept if verdict.agrees]
    others = [verdict for verdict in kept if not verdict.agrees]
    if not kept:
        text = "no model has been compared with the CPU on this device"
        yield Finding(
            _TOPIC, Level.INFO, text, "rknnlite doctor --try-npu runs small ones, for a report that helps all"
        )
    if agreeing:
        yield Finding(_TOPIC, Level.OK, f"models that agree with the CPU on this device: {len(agreeing)}")
    for verdict in others[:_SHOWN]:
        text = f"{verdict.model}: {verdict.difference}; left to other backends"
        yield Finding(
            _TOPIC, Level.WARN, text, "please report it: rknnlite doctor --try-npu prints what to paste"
        )
    if len(others) > _SHOWN:
        yield Finding(_TOPIC, Level.WARN, f"and {len(others) - _SHOWN} more models that differ")
