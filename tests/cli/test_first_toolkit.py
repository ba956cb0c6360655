"""``info``, ``check``, ``doctor`` and ``devices`` on files of the first toolkit."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from rknnlite.spi import Backend, Probe
from rknnlite.spi.command import Exit
from tests.support.corpus import genuine
from tests.support.rknn1_files import F16, File, dfp, u8

from .conftest import Call, Offer


def picture(dtype: object = None, **fields: object) -> File:
    """One RELU on a picture of three channels, whose second output comes first in the list of tensors."""
    file = File(mean_value=[1, 2, 3], std_value=[4.0, 5.0, 6.0], mean_value_chns=[3], **fields)
    kind = dtype or u8(0.5, 7)
    x = file.input((1, 3, 4, 6), kind)  # type: ignore[arg-type]
    first, second = file.node("RELU", [x], kind), file.node("SIGMOID", [x], kind)  # type: ignore[arg-type]
    for node in (second, first):
        file.output(node, (1, 3, 4, 6))
    file._norms[1]["url"], file._norms[2]["url"] = "sigmoid", "relu"
    file._ends["output"].reverse()
    return file


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    path = tmp_path / "plain.rknn"
    path.write_bytes(picture(reorder=[2, 1, 0], version="1.7.3", ovxlib_version="1.1.24").data)
    return path


@pytest.fixture
def compiled(tmp_path: Path) -> Path:
    path = tmp_path / "compiled.rknn"
    path.write_bytes(picture(pre_compile=1).data)
    return path


@pytest.fixture
def custom(tmp_path: Path) -> Path:
    """Container 2 with an operator of its own."""
    file = File()
    file.output(file.node("ResizeArea", [file.input((1, 3, 4, 6), F16)], F16), (1, 3, 4, 6))
    text = json.dumps(file.description).encode()
    parts = [
        b"RKNN\0\0\0\0",
        struct.pack("<QQ", 2, 0),
        struct.pack("<Q", len(text)),
        text,
        struct.pack("<Q", 2),
        b"[]",
    ]
    path = tmp_path / "custom.rknn"
    path.write_bytes(b"".join(parts))
    return path


def test_info_in_lines(call: Call, plain: Path) -> None:
    lines = call("info", plain).out.splitlines()
    assert "container:     version 1" in lines
    assert "toolkit:       1.7.3" in lines and "ovxlib:        1.1.24" in lines
    assert "runs on:       RV1109, RV1126" in lines
    assert "generation:    first (RKNN-Toolkit 1, librknn_api)" in lines
    assert (
        "form:          plain graph: runs on the board through librknn_api, and on the CPU reference" in lines
    )
    assert "quantisation:  asymmetric uint8" in lines
    assert "  mean=[1, 2, 3], std=[4, 5, 6] (input_0)" in lines
    assert "  channel order=[2, 1, 0] (RGB pictures are turned into BGR) (input_0)" in lines


def test_info_as_data(call: Call, plain: Path) -> None:
    data = call("info", "--json", plain).data
    assert (data["family"], data["container"], data["pre_compiled"], data["board_only"]) == (
        "RKNPU1",
        1,
        False,
        "",
    )
    assert (data["toolkit_version"], data["ovxlib"], data["platforms"]) == (
        "1.7.3",
        "1.1.24",
        ["rv1126", "rv1109"],
    )
    assert data["reorder"] == [[2, 1, 0]] and data["inputs"][0]["mean"] == [1, 2, 3]
    assert [attr["name"] for attr in data["outputs"]] == ["relu", "sigmoid"]  # the order of graph
    assert data["quantisation"]["inputs"] == [{"kind": "asymmetric", "scale": 0.5, "zero_point": 7}]


def test_info_of_fixed_point(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "fixed.rknn"
    path.write_bytes(picture(dfp("INT8", 5)).data)
    done = call("info", path)
    assert "quantisation:  dynamic fixed point int8\n" in done.out
    assert "  dynamic fixed point fl=5, scale=2^-5 (input_0)" in done.out
    data = call("info", "--json", path).data
    assert data["quantisation"]["outputs"] == [{"kind": "dynamic_fixed_point", "fl": 5}] * 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["compiled", "custom"])
def test_what_only_a_board_runs(call: Call, request: pytest.FixtureRequest, kind: str) -> None:
    path = request.getfixturevalue(kind)
    what, remedy = {
        "compiled": ("the model is pre-compiled: it runs on the board", "convert without pre_compile"),
        "custom": (
            "custom operators (ResizeArea) compiled for its board",
            "convert the network without them",
        ),
    }[kind]
    told = call("info", path)
    assert (
        told.code == Exit.OK and what in told.out and "RV1109, RV1126" in told.out and "input_0" in told.out
    )
    data = call("info", "--json", path).data
    assert what in data["board_only"] and data["container"] == (1 if kind == "compiled" else 2)
    fine = call("check", path)
    assert fine.code == Exit.OK and "fine, RV1109/RV1126" in fine.out and what in fine.out
    ran = call("check", "--run", path)
    assert ran.code == Exit.MODEL and "cannot be executed here" in ran.out and remedy in ran.out
    doctor = call("doctor", path, "--backend", "cpu")
    assert doctor.code == Exit.UNAVAILABLE and what in doctor.out and f"-> {remedy}" in doctor.out
    assert "librknn_api" in doctor.out and "nobody registered" not in doctor.out


def test_check_runs_a_plain_one(call: Call, plain: Path) -> None:
    done = call("check", "--run", "--soc", "rv1126", plain)
    assert done.code == Exit.OK and "ran on the CPU reference" in done.out
    done = call("check", "--soc", "rk3588", plain)
    assert done.code == Exit.MODEL and "it runs on RV1109/RV1126, not on RK3588" in done.out


@pytest.mark.slow
@pytest.mark.parametrize("soc", ["rk3588", "rk1808"])
def test_doctor_on_a_board_of_another_generation(call: Call, plain: Path, tmp_path: Path, soc: str) -> None:
    tree = tmp_path / "proc" / "device-tree"
    tree.mkdir(parents=True)
    (tree / "compatible").write_bytes(f"some,board\0rockchip,{soc}\0".encode())
    model, runs_on, kit = (plain, "RV1109, RV1126", "rknn-toolkit2")
    if soc == "rk1808":
        model, runs_on, kit = (genuine("conv_1x1.rk3588.i8"), "RK3588", "rknn-toolkit 1.7")
    done = call("doctor", model, "--root", tmp_path)
    assert f"this board is an {soc.upper()}, the model runs on {runs_on}" in done.out
    assert f"convert the network again with {kit} for {soc}: the NPUs are of different" in done.out


class Board(Backend):
    """A board of the first generation with a runtime that is never opened."""

    name, generation = "board", "rknpu1"
    version = ""

    def probe(self) -> Probe:
        return Probe(True, "a double", priority=50, library="/usr/lib/librknn_api.so", version=self.version)

    def open(self, model: Any, options: Any) -> Any:
        raise AssertionError("nobody opens it")


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1.7.1", "1.6.1"])
def test_doctor_on_a_board(call: Call, install: Any, plain: Path, compiled: Path, version: str) -> None:
    board = Board()
    board.version = version
    install(board=Offer(board))
    assert (
        f"model of toolkit 1.7.3, runtime {version} (backend board): compatible" in call("doctor", plain).out
    )
    told = "compatible" if version == "1.7.1" else "compiled for other versions of the driver"
    done = call("doctor", compiled)
    assert f"model of toolkit 1.7.0, runtime {version} (backend board): {told}" in done.out
    assert done.code == Exit.OK and f"ready on librknn_api {version}" in done.out


def test_devices_names_the_generations(call: Call) -> None:
    done = call("devices")
    assert any(line.split()[:2] == ["cpu", "rknpu1-3"] for line in done.out.splitlines())
    (cpu,) = [entry for entry in call("devices", "--json").data if entry["backend"] == "cpu"]
    assert cpu["generations"] == ["rknpu1", "rknpu2", "rknpu3"] and cpu["generation"] == "rknpu2"
