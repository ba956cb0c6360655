"""The table of SoCs, and which one this machine is."""

from __future__ import annotations

from pathlib import Path

import pytest

from rknnlite import socs
from rknnlite.errors import ParamInvalid, TargetPlatformUnmatch
from rknnlite.tensor import DType

MASKS = {
    "rk3588": [0, 1, 2, 4, 3, 7, 0xFFFF],
    "rk3576": [0, 1, 2, 3, 0xFFFF],
    "rk3566": [],
    "rk3568": [],
    "rk3562": [],
    "rv1126b": [],
}


def test_all_five_families_are_there() -> None:
    assert set(MASKS) <= set(socs.table())
    assert len({soc.family for name, soc in socs.table().items() if name in MASKS}) == 5


@pytest.mark.parametrize("name", MASKS)
def test_core_masks(name: str) -> None:
    soc = socs.get(name)
    for mask in [*range(-1, 10), 0xFFFF, 0x10000, 0xFFFFFFFF]:
        if mask in MASKS[name]:
            soc.check_core_mask(mask)
        elif MASKS[name]:
            with pytest.raises(
                ParamInvalid, match=rf"not legal on {name}; legal masks: 0, 1, 2.*0xffff"
            ) as caught:
                soc.check_core_mask(mask)
            assert caught.value.code == -1
        else:
            with pytest.raises(TargetPlatformUnmatch, match=f"{name} has a single NPU core") as caught:
                soc.check_core_mask(mask)
            assert caught.value.code == -13


@pytest.mark.parametrize("name", ["rk1820", "rk1828"])
def test_coprocessors_take_any_set_of_cores(name: str) -> None:
    soc = socs.get(name)
    for mask in (0, 1, 0x80, 0x0F, 0xFF):
        soc.check_core_mask(mask)
    for mask in (-1, 0x100, 0xFFFF):
        with pytest.raises(ParamInvalid, match=rf"{name}; legal masks: 0 to 0xff, a bit per core"):
            soc.check_core_mask(mask)


def test_lanes() -> None:
    for name, (int8, float16) in {
        "rk3588": (16, 8),
        "rk3566": (8, 4),
        "rk3562": (16, 8),
        "rk3576": (16, 8),
        "rk1820": (32, 16),
    }.items():
        soc = socs.get(name)
        assert (soc.lanes(DType.INT8), soc.lanes(DType.UINT8)) == (int8, int8)
        assert (soc.lanes(DType.FLOAT16), soc.lanes(DType.BFLOAT16)) == (float16, float16)
        assert soc.lanes(DType.INT64) == 1


def test_rows_are_complete() -> None:
    for name, soc in socs.table().items():
        assert soc.name == name and soc.names and soc.generation
        assert soc.cores >= 1 and soc.align in ((1,) if soc.generation == "rknpu1" else (8, 16))
        assert len(soc.masks) == len(set(soc.masks))
        # a coprocessor hangs on a host, whose device tree does not name it
        played = soc.generation == "rknpu3"
        assert (name in soc.accepts, bool(soc.compatible)) == (not played, not played)
    words = [word for soc in socs.table().values() for word in soc.compatible]
    assert len(words) == len(set(words)), "two SoCs claim the same device tree word"


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("RK3588S", "rk3588"),
        (" rk3588 ", "rk3588"),
        ("Rk3568", "rk3568"),
        ("RV1126B", "rv1126b"),
        ("rk3582", "rk3588"),
        ("RK3583", "rk3588"),
        ("rv1106g3", "rv1106"),
    ],
)
def test_get(spelling: str, name: str) -> None:
    assert socs.get(spelling).name == name


def test_get_unknown() -> None:
    with pytest.raises(ParamInvalid, match=r"unknown SoC 'rk9999'; known: rk3588, "):
        socs.get("rk9999")


@pytest.fixture
def device_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "compatible"
    monkeypatch.setattr(socs, "_DEVICE_TREE", path)
    return path


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (b"radxa,rock-5b\0rockchip,rk3588\0", "rk3588"),
        (b"xunlong,orangepi-5\0rockchip,rk3588s\0", "rk3588"),
        (b"rockchip,rk3566-box\0rockchip,rk3566\0", "rk3566"),
        (b"firefly,rk3568-roc-pc\0rockchip,rk3568\0", "rk3568"),
        (b"rockchip,rk3576-evb1\0rockchip,rk3576\0", "rk3576"),
        (b"rockchip,rk3562\0", "rk3562"),
        (b"rockchip,rv1126b-evb\0rockchip,rv1126b\0", "rv1126b"),
        (b"radxa,e52c\0rockchip,rk3582\0", "rk3588"),
        (b"some,board\0rockchip,rk3583\0", "rk3588"),
        (b"luckfox,pico-max\0rockchip,rv1106g3\0", "rv1106"),
        (b"raspberrypi,4-model-b\0brcm,bcm2711\0", None),
        (b"acme,not-rk3588-at-all\0", None),
        (b"\xff\xfe\0", None),
        (b"", None),
    ],
)
def test_detect(device_tree: Path, text: bytes, name: str | None) -> None:
    device_tree.write_bytes(text)
    found = socs.detect()
    assert (found.name if found else None) == name


def test_detect_without_a_device_tree(device_tree: Path) -> None:
    assert socs.detect() is None


def test_variable_wins(device_tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device_tree.write_bytes(b"rockchip,rk3588\0")
    monkeypatch.setenv("RKNNLITE_SOC", "RK3576")
    found = socs.detect()
    assert found is not None and found.name == "rk3576"
    monkeypatch.setenv("RKNNLITE_SOC", "toaster")
    with pytest.raises(ParamInvalid, match="unknown SoC 'toaster'"):
        socs.detect()
