"""Why a model does not open: device, permission, SoC, versions, damage."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from rknnlite_backend.versions import runtime_rule
from rknnlite_rknnrt import device, native_context
from rknnlite_rknnrt.backend import RknnrtBackend

import rknnlite
from rknnlite.errors import (
    BackendUnavailable,
    DeviceUnavailable,
    ModelInvalid,
    ParamInvalid,
    RknnError,
    TargetPlatformUnmatch,
)
from tests.doubles.double import Double, model
from tests.support.corpus import genuine

from .conftest import built
from .models import AFFINE, picture


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without an NPU; ``sys`` and ``dev`` are folders of the test."""
    monkeypatch.setattr(device, "SYS", tmp_path / "sys")
    monkeypatch.setattr(device, "DEV", tmp_path / "dev")
    (tmp_path / "dev" / "dri").mkdir(parents=True)
    return tmp_path


def with_npu(machine: Path, node: bool = True) -> Path:
    """Give the machine an NPU at renderD129, beside a GPU."""
    for name, driver in (("renderD128", "panfrost"), ("renderD129", "RKNPU")):
        entry = machine / "sys" / "class" / "drm" / name / "device"
        entry.mkdir(parents=True)
        (machine / "sys" / "drivers" / driver).mkdir(parents=True)
        (entry / "driver").symlink_to(machine / "sys" / "drivers" / driver)
    path = machine / "dev" / "dri" / "renderD129"
    if node:
        path.touch()
    return path


def test_no_driver(machine: Path) -> None:
    assert device.look() == device.NodeState((), device.look().problem)
    assert "no NPU device node: the kernel has no rknpu driver bound" in device.look().problem


def test_a_node_that_can_be_opened(machine: Path) -> None:
    node = with_npu(machine)
    assert device.look() == device.NodeState((str(node),), "")


def test_a_node_of_an_old_kernel(machine: Path) -> None:
    (machine / "dev" / "rknpu").touch()
    assert device.look() == device.NodeState((str(machine / "dev" / "rknpu"),), "")


def test_a_container_without_the_node(machine: Path) -> None:
    node = with_npu(machine, node=False)
    assert (
        device.look().problem
        == f"the device node {node} is missing here; give it to the container (--device)"
    )


def test_no_permission_names_the_group(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import grp

    node = with_npu(machine)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group(("render", "x", gid, [])))
    assert device.look().problem == (
        f"no permission to open {node}; join its group: sudo usermod -aG render $USER, then log in again"
    )
    monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group(("root", "x", gid, [])))
    assert "belongs to root alone; add a udev rule for group render" in device.look().problem


def test_the_backend_is_not_available_then(
    machine: Path, double: Double, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the library was named, which is how one runs on something that is no board."""
    assert RknnrtBackend().probe().available
    monkeypatch.delenv("RKNNLITE_LIBRARY")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library.parent))
    assert "no NPU device node" in RknnrtBackend().probe().reason
    with pytest.raises(BackendUnavailable, match=r"backend rknnrt cannot be used here: no NPU device node"):
        rknnlite.open(model(*AFFINE))
    node = with_npu(machine)
    probe = RknnrtBackend().probe()
    assert probe.available and probe.priority == 100 and probe.devices == (str(node),)
    assert probe.reason == f"librknnrt 2.3.2 (double@2026-11-21T00:00:00) ({library})"


@pytest.mark.parametrize("code", [-1, -3])
def test_init_without_a_device(machine: Path, double: Double, code: int) -> None:
    """Libraries answer -1 where -3 is meant."""
    path = genuine("conv_relu.rk3588.i8")
    double.fault("rknn_init", code)
    with pytest.raises(DeviceUnavailable, match=r"rknn_init failed.*no NPU device node") as caught:
        rknnlite.open(path)
    assert caught.value.code == code


# -- SoCs --------------------------------------------------------------------------------------------------


def test_a_model_for_another_board(double: Double, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RKNNLITE_SOC", "rk3566")
    with pytest.raises(
        TargetPlatformUnmatch,
        match=r"was built for rk3588, this board is an rk3566; convert it with target_platform",
    ):
        rknnlite.open(genuine("conv_relu.rk3588.i8"))
    assert double.count("rknn_init") == 0


def test_an_unknown_soc(double: Double, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RKNNLITE_SOC", "rk9999")
    with pytest.raises(ParamInvalid, match=r"unknown SoC 'rk9999'; known: rk3588, "):
        rknnlite.open(model(*AFFINE))


def test_a_soc_that_this_board_is_not(
    double: Double, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A program written for another board names its SoC as target; here the model runs where it is."""
    monkeypatch.setenv("RKNNLITE_SOC", "rk3588")
    rknnlite.open(model(*AFFINE), soc="rk3588").close()
    assert caplog.text == ""
    rknnlite.open(model(*AFFINE), soc="rk3566").close()
    assert "rk3566 was asked for, but this board is an rk3588: that runs the model" in caplog.text


@pytest.mark.parametrize("board", ["rk3566", "rk3568"])
def test_sister_chips_share_models(
    board: str,
    double: Double,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A model for RK3566, which names no other chip, runs on an RK3568: as that chip, and without a word."""
    description = tmp_path / "double.txt"
    description.write_bytes(model(*AFFINE))
    monkeypatch.setenv("RKNN_DOUBLE_MODEL", str(description))
    monkeypatch.setenv("RKNNLITE_SOC", board)
    with rknnlite.open(genuine("conv_relu.rk3566.i8")) as context:
        assert context.soc.name == board
        (scores,) = context.infer(picture())
        assert scores.shape == (1, 10)
    assert double.count("rknn_init") == 1 and caplog.text == ""


def test_a_board_that_only_the_library_knows(double: Double, monkeypatch: pytest.MonkeyPatch) -> None:
    double.fault("rknn_init", -13)
    with pytest.raises(TargetPlatformUnmatch, match=r"was built for rk3588, this board is another one"):
        rknnlite.open(genuine("conv_relu.rk3588.i8"))


# -- versions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "toolkit, rule",
    [
        ("1.2.0", ("a model of toolkit 1.2.0 needs runtime 1.2.0 to 1.5.0", (1, 2, 0), (1, 5, 0))),
        ("1.5.0", ("a model of toolkit 1.5.0 needs runtime 1.5.0", (1, 5, 0), (1, 5, 0))),
        ("1.5.2", ("a model of toolkit 1.5.2 needs runtime 1.5.2 or newer", (1, 5, 2), None)),
        ("1.6.0", ("a model of toolkit 1.6.0 needs runtime 1.5.2 or newer", (1, 5, 2), None)),
        ("2.3.2", ("a model of toolkit 2.3.2 needs runtime 2.0.0 or newer", (2, 0, 0), None)),
    ],
)
def test_rules(toolkit: str, rule: tuple[str, tuple[int, ...], tuple[int, ...] | None]) -> None:
    assert runtime_rule(toolkit) == rule


def test_a_model_newer_than_the_runtime(double: Double, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both versions, the rule, and what to do."""
    monkeypatch.setenv("RKNNLITE_LIBRARY", str(built('VERSION="1.4.0"')))
    with pytest.raises(
        RknnError,
        match=r"librknnrt here is 1.4.0 \(.*\): a model of toolkit 2\.\d\.\d.* needs runtime 2.0.0 or newer; update",
    ):
        rknnlite.open(genuine("conv_relu.rk3588.i8"))


def test_a_container_newer_than_anything(double: Double) -> None:
    content = bytearray(genuine("conv_relu.rk3588.i8").read_bytes())
    content[8] = 7
    with pytest.raises(
        RknnError, match=r"has container version 7, librknnrt here is 2.3.2 .*; update the runtime"
    ):
        rknnlite.open(bytes(content))


# -- damage ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"garbage" * 20, b"", genuine("conv_1x1.rk3588.i8").read_bytes()[:40]])
def test_damaged_models(double: Double, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.rknn"
    path.write_bytes(content)
    for source in (path, content):
        with pytest.raises(RknnError, match=r"not an RKNN model|is empty|truncated") as caught:
            rknnlite.open(source)
        assert caught.value.code in (-5, -6)
    with pytest.raises(ModelInvalid, match=r"bad.rknn"):
        rknnlite.open(path)


def _cut(content: bytes) -> bytes:
    return content[:-200]


def _without_json(content: bytes) -> bytes:
    """The last block was never written: zeros."""
    size = int.from_bytes(content[16:24], "little")
    return content[: 72 + size] + bytes(len(content) - size - 72)


def _broken_json(content: bytes) -> bytes:
    return content[:-3] + b"\xff\xff\xff"


@pytest.mark.parametrize(
    "damage, words",
    [
        (_cut, "is truncated"),
        (_without_json, "JSON part .* is empty"),
        (_broken_json, "JSON part cannot be read"),
    ],
)
@pytest.mark.parametrize("of", ["path", "bytes", "NPU memory"])
def test_damage_is_found_before_the_library_dies_of_it(
    double: Double, tmp_path: Path, damage: Callable[[bytes], bytes], words: str, of: str
) -> None:
    """The genuine library ends the process here (an exception of its JSON parser), and so does the double."""
    path = tmp_path / "bad.rknn"
    path.write_bytes(damage(genuine("conv_relu.rk3588.i8").read_bytes()))
    source = path.read_bytes() if of == "bytes" else path
    options = {"model_in_npu_memory": True} if of == "NPU memory" else {}
    with pytest.raises(ModelInvalid, match=f"{words}.*librknnrt was not called") as caught:
        rknnlite.open(source, **options)
    assert caught.value.code == -6 and double.count("rknn_init") == 0


@pytest.mark.parametrize("head", [b"CYPTRKNN", b"RKCE\0\0\0\0", b"RKNN\0\0\0\0\7"])
def test_what_only_the_library_can_judge_reaches_it(double: Double, head: bytes) -> None:
    """Encrypted files and containers that came later."""
    content = head + genuine("conv_relu.rk3588.i8").read_bytes()[len(head) : -200]
    with pytest.raises(RknnError):
        rknnlite.open(content)
    assert double.count("rknn_init") == 1


def test_a_clash_of_versions_is_logged_before_the_call(
    double: Double, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever the library then does, the reason stands in the log."""
    before: list[str] = []

    def init_error(*_: object) -> RknnError:
        before.append(caplog.text)
        return RknnError("refused")

    monkeypatch.setattr(native_context, "init_error", init_error)
    monkeypatch.setenv("RKNNLITE_LIBRARY", str(built('VERSION="1.4.0"')))
    with pytest.raises(RknnError, match="refused"):
        rknnlite.open(genuine("conv_relu.rk3588.i8"))
    (text,) = before
    assert "conv_relu.rk3588.i8" in text and "needs runtime 2.0.0 or newer; update the runtime" in text


def test_a_model_that_is_not_there(double: Double, tmp_path: Path) -> None:
    with pytest.raises(ModelInvalid, match=r"cannot be read: No such file"):
        rknnlite.open(tmp_path / "absent.rknn")
