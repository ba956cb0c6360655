"""The NPU's device node on this machine: which it is, and whether this user may open it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

__all__ = ["DEV", "SYS", "NodeState", "look"]

SYS = Path("/sys")
DEV = Path("/dev")
_DRIVERS = ("rknpu", "RKNPU")
_CLASSES = ("class/drm", "class/accel", "class/misc")


class NodeState(NamedTuple):
    """``nodes`` are device nodes of the NPU; ``problem`` is empty when one can be opened."""

    nodes: tuple[str, ...]
    problem: str


def look() -> NodeState:
    """Find the NPU by the name of its kernel driver; node numbers differ from board to board."""
    names = _nodes_by_driver()
    nodes = tuple(str(DEV / name) for name in names if (DEV / name).exists())
    if not names:
        if (DEV / "rknpu").exists():
            names, nodes = ["rknpu"], (str(DEV / "rknpu"),)
        else:
            return NodeState(
                (), "no NPU device node: the kernel has no rknpu driver bound (look at dmesg | grep -i rknpu)"
            )
    if not nodes:
        listed = ", ".join(str(DEV / name) for name in names)
        return NodeState((), f"the device node {listed} is missing here; give it to the container (--device)")
    usable = [node for node in nodes if os.access(node, os.R_OK | os.W_OK)]
    if usable:
        return NodeState(nodes, "")
    return NodeState(nodes, _permission(nodes[-1]))


def _nodes_by_driver() -> list[str]:
    found = []
    for folder in _CLASSES:
        for entry in sorted((SYS / folder).glob("*")):
            driver = entry / "device" / "driver"
            try:
                if driver.resolve(strict=True).name in _DRIVERS:
                    found.append(_node_name(folder, entry.name))
            except OSError:
                continue
    return found


def _node_name(folder: str, name: str) -> str:
    prefix = {"class/drm": "dri/", "class/accel": "accel/"}.get(folder, "")
    return prefix + name


def _permission(node: str) -> str:
    import grp

    try:
        group = grp.getgrgid(Path(node).stat().st_gid).gr_name
    except (OSError, KeyError):
        group = "render"
    if group == "root":
        return f"no permission to open {node}, which belongs to root alone; add a udev rule for group render"
    return f"no permission to open {node}; join its group: sudo usermod -aG {group} $USER, then log in again"
