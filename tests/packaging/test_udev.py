"""The rule for udev that the Debian package ships: what doctor tells those who have no package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rknnlite_npu.kernel import permissions

from .project import DEBIAN, fields

RULES = DEBIAN / "python3-rknnlite-npu.udev"


def test_the_package_ships_the_rules_that_doctor_tells() -> None:
    lines = [line for line in RULES.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    assert tuple(lines) == permissions.UDEV_RULES
    assert RULES.stem in fields()


@pytest.mark.parametrize("rule", permissions.UDEV_RULES)
def test_a_rule_matches_nodes_and_gives_them_to_a_group(rule: str) -> None:
    keys = re.findall(r'(\w+)(==|=)"([^"]+)"(?:, |$)', rule)
    assert ", ".join(f'{key}{sign}"{value}"' for key, sign, value in keys) == rule
    assert [key for key, sign, _ in keys if sign == "="] == ["GROUP", "MODE"]
    assert {"SUBSYSTEM", "KERNEL"} <= {key for key, sign, _ in keys if sign == "=="}


def test_a_closed_node_has_its_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permissions, "_group", lambda path: "root")
    assert permissions.UDEV_RULES[0] in permissions.remedy("/dev/accel/accel0")
    assert permissions.UDEV_RULES[1] in permissions.remedy("/dev/dri/renderD129")
    assert permissions.UDEV_RULES[2] in permissions.remedy("/dev/rknpu")
    monkeypatch.setattr(permissions, "_group", lambda path: "render")
    assert permissions.remedy("/dev/accel/accel0") == "sudo usermod -aG render $USER, then log in again"
