"""Which nodes are opened to find the NPU: those of other drivers are left alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from rknnlite_npu.kernel import device_nodes

NODES = {
    "accel/accel0": ("accel", ""),  # mainline's rocket: a platform device without a driver
    "accel/accel1": ("accel", "intel_vpu"),
    "dri/renderD128": ("drm", "panthor"),
    "dri/renderD129": ("drm", "RKNPU"),
    "dri/renderD1000": ("drm", ""),
    "dri/card0": ("drm", "rockchip-drm"),
    "dri/by-path": ("drm", ""),
}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for place, (kind, driver) in NODES.items():
        node = tmp_path / "dev" / place
        node.parent.mkdir(parents=True, exist_ok=True)
        node.touch()
        device = tmp_path / "class" / kind / node.name / "device"
        device.mkdir(parents=True)
        if driver:
            (device / "driver").symlink_to(f"../../../bus/platform/drivers/{driver}")
    places = [(f"{tmp_path}{folder}", pattern, kind) for folder, pattern, kind in device_nodes._PLACES]
    monkeypatch.setattr(device_nodes, "_PLACES", places)
    monkeypatch.setattr(device_nodes, "_CLASSES", tmp_path / "class")
    return tmp_path


def test_nodes_of_other_drivers_are_left_alone(machine: Path) -> None:
    found = [(node.path.removeprefix(f"{machine}/dev/"), node.driver) for node in device_nodes.device_nodes()]
    assert found == [("accel/accel0", ""), ("dri/renderD129", "rknpu"), ("dri/renderD1000", "")]


def test_a_machine_without_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_nodes, "_PLACES", [("/nowhere", r"accel\d+", "accel")])
    assert list(device_nodes.device_nodes()) == []
