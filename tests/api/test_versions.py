"""get_sdk_version, list_devices, list_support_target_platform."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

import pytest

from rknnlite.api import RKNNLite

from .corpus import genuine


@pytest.fixture
def fresh(capfd: pytest.CaptureFixture[str]) -> RKNNLite:
    rknn = RKNNLite()
    capfd.readouterr()
    return rknn


def test_sdk_version_is_a_banner(rknn: RKNNLite) -> None:
    lines = rknn.get_sdk_version().split("\n")
    assert lines[0] == lines[4] == "=" * len(lines[0])
    assert lines[1:4] == ["RKNN VERSION:", "  API: 9.9.9 (fake@2026-01-01)", "  DRV: 0.9.8"]


def test_sdk_version_before_init(fresh: RKNNLite, capfd: pytest.CaptureFixture[str]) -> None:
    assert fresh.get_sdk_version() is None
    assert capfd.readouterr().err == (
        "E Runtime environment is not inited, please call init_runtime to init it first!\n"
    )


def test_list_devices_has_none(fresh: RKNNLite, capfd: pytest.CaptureFixture[str]) -> None:
    assert fresh.list_devices() == ([], [])
    first, middle, last = capfd.readouterr().out.splitlines()
    assert first == last == "*" * 25
    assert "devices connected" in middle


def test_all_platforms(fresh: RKNNLite, capfd: pytest.CaptureFixture[str]) -> None:
    assert fresh.list_support_target_platform() is None
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == lines[-1] == "*" * 50
    assert [line for line in lines if line.startswith("chip family")] == [
        "chip family 1: RK3562",
        "chip family 2: RK3566, RK3568",
        "chip family 3: RK3588",
        "chip family 4: RK3576",
        "chip family 5: RV1126B",
    ]


@pytest.mark.parametrize(
    ("name", "filled", "supported"),
    [
        ("conv_1x1.rk3588.i8", ["rk3588"], ["RK3588"]),
        ("conv_relu.rk3566.i8", ["rk3566"], ["RK3566", "RK3568"]),
        ("resize.rk3568.fp16", ["rk3568"], ["RK3566", "RK3568"]),
        ("conv_1x1.rk3576.i8", ["rk3576"], ["RK3576"]),
    ],
)
def test_platforms_of_a_model(
    fresh: RKNNLite, capfd: pytest.CaptureFixture[str], name: str, filled: list[str], supported: list[str]
) -> None:
    answer = fresh.list_support_target_platform(rknn_model=str(genuine(name)))
    assert isinstance(answer, OrderedDict)
    assert list(answer.items()) == [
        ("filled_target_platform", filled),
        ("support_target_platform", supported),
    ]
    assert capfd.readouterr().out.splitlines() == [
        "*" * 50,
        f"Target platforms filled in RKNN model:         {filled}",
        f"Target platforms supported by this RKNN model: {supported}",
        "*" * 50,
    ]


@pytest.mark.parametrize("path", ["/no/such/model.rknn", "", "/", 7])
def test_platforms_of_no_file(fresh: RKNNLite, capfd: pytest.CaptureFixture[str], path: object) -> None:
    assert fresh.list_support_target_platform(path) is None  # type: ignore[arg-type]
    out, err = capfd.readouterr()
    assert out == "" and err == f"E Invalid RKNN model path: {path or None}\n"


def test_platforms_of_a_file_that_is_no_model(
    fresh: RKNNLite, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cat.jpg"
    path.write_bytes(b"\xff\xd8\xff" * 50)
    assert fresh.list_support_target_platform(path) is None
    out, err = capfd.readouterr()
    assert out == "" and len(err.splitlines()) == 1
    assert err.startswith(f"E Invalid RKNN model path: {path}") and "RKNN_ERR_MODEL_INVALID" in err
