"""Who may use the NPU's device: a group, and the rule for udev that gives it to them. Debian packages bring the rule."""

from __future__ import annotations

import grp
from pathlib import Path

__all__ = ["RULES_FILE", "UDEV_RULES", "remedy"]

RULES_FILE = "/etc/udev/rules.d/60-rknnlite-npu.rules"
UDEV_RULES = (
    'SUBSYSTEM=="accel", KERNEL=="accel[0-9]*", GROUP="render", MODE="0660"',
    'SUBSYSTEM=="drm", KERNEL=="renderD[0-9]*", DRIVERS=="RKNPU", GROUP="render", MODE="0660"',
    'SUBSYSTEM=="misc", KERNEL=="rknpu", GROUP="render", MODE="0660"',
)
_KINDS = {"accel": 0, "renderD": 1, "card": 1, "rknpu": 2}


def remedy(path: str) -> str:
    """How a user gets at a device that is closed to them: by its group, or by a rule where only root has it."""
    group = _group(path)
    if group not in ("", "root"):
        return f"sudo usermod -aG {group} $USER, then log in again"
    number = next((row for word, row in _KINDS.items() if Path(path).name.startswith(word)), 0)
    return (
        f"echo '{UDEV_RULES[number]}' | sudo tee {RULES_FILE}; sudo udevadm control --reload; sudo udevadm trigger; "
        "sudo usermod -aG render $USER, then log in again"
    )


def _group(path: str) -> str:
    """The group of a node; empty where there is none."""
    try:
        number = Path(path).stat().st_gid
    except OSError:
        return ""
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)
