"""``rknnlite npu-plan`` and the arrays that it writes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Call, call
from tests.support.corpus import EXAMPLES, genuine

from .plans import planned

__all__ = ["call"]  # the fixture

MODEL = genuine("unet_like.rk3588.i8")
BASE = ("--base", "weight=0x10000000", "internal=0x20000000")
IO = ("--io", "0x1000", "0x2000", "12288")


def test_the_arrays_of_a_plan(call: Call, tmp_path: Path) -> None:
    out = tmp_path / "plan.npz"
    done = call("npu-plan", MODEL, *BASE, *IO, "--uint8", "--out", out, "--json")
    assert done.code == 0 and done.data["file"] == str(out) and done.data["never_recorded"] == []
    with np.load(out) as arrays:
        assert arrays["words"].dtype == np.uint64 and len(arrays["words"]) == done.data["words"] == 2672
        assert arrays["offset"] == done.data["commands"] - 0x10000000 == 18816
        assert arrays["records"].shape == (20, 9) and arrays["records"][0, 8] == done.data["commands"]
        assert arrays["buffers"].tolist() == ["task", "weight", "internal", "in0", "out0", "out1"]
        assert arrays["sizes"].tolist() == [800, 41024, 38656, 768, 8192, 16384]
        assert arrays["addresses"].tolist() == [0, 0x10000000, 0x20000000, 0x1000, 0x2000, 0x3000]
        assert arrays["places"].tolist() == [
            [index, job, 0] for index, job in enumerate([0] * 9 + [1] * 2 + [2] * 9)
        ]
    assert [path.name for path in tmp_path.iterdir()] == ["plan.npz"]


def test_with_a_core_mask_the_records_are_those_of_its_cores(call: Call, tmp_path: Path) -> None:
    out, model = tmp_path / "plan.npz", EXAMPLES / "resnet18" / "resnet18_for_RK3588.rknn"
    found = planned("resnet18_for_RK3588")
    for mask, count, cores in (
        (None, 143, [-1, 0]),
        ("1", 25, [0]),
        ("0x7", 69, [0, 1, 2]),
        ("all", 69, [0, 1, 2]),
    ):
        words = ["--cores", mask] if mask else []
        assert call("npu-plan", model, *BASE, "--out", out, *words).code == 0
        with np.load(out) as arrays:
            assert len(arrays["records"]) == count
            assert sorted(set(arrays["places"][:, 2].tolist())) == cores
            for record, (index, _, _) in zip(arrays["records"].tolist(), arrays["places"].tolist()):
                assert record == list(found.tasks[index])


def test_what_is_printed(call: Call) -> None:
    done = call("npu-plan", genuine("resize.rk3588.i8"), *BASE, "--words")
    assert done.code == 0 and not done.err
    lines = done.out.splitlines()
    assert lines[1].split() == ["task", "0x0", "1160"]
    assert "1344 command words from 0x10001580 on (10752 bytes), 29 task records" in lines
    assert "On the CPU" in lines and 'Resize "Resize:/Resize_2"' in lines
    assert 'task 2, job 2, core 0: Resize "Resize:/Resize_1", units 0x18, at 0x10001c40' in done.out
    assert "CNA 0x1070 = 0x20000000" in lines and "ENABLE 0x0008 = 0x18" in lines


def test_what_was_never_recorded_is_a_remark(call: Call) -> None:
    done = call("npu-plan", genuine("conv_relu.rk3576.i8"), *BASE)
    assert done.code == 0 and "never recorded: RKNPU f2, container 0x6" in done.err


def test_what_cannot_be_planned_is_told_with_its_exit_code(call: Call, tmp_path: Path) -> None:
    for code, words, said in (
        (2, ("--base", "weight=0"), "--base lacks internal"),
        (2, ("--base", "weight=0", "internal=4G"), "'4G' is no address"),
        (2, ("--base", "memory=0", "internal=1"), "'memory=0' names no buffer"),
        (2, (*BASE, "--cores", "5"), "core mask 0x5: the file has tasks for the masks"),
        (2, (*BASE, "--shape", "1"), "shape 1: the model has 1 sets of shapes"),
        (5, (*BASE, "--io", "1", "2"), "2 addresses for the 1 inputs and 2 outputs"),
        (1, (*BASE, "--out", str(tmp_path / "none" / "x.npz")), "there is no folder"),
    ):
        done = call("npu-plan", MODEL, *words)
        assert (done.code, said in done.err) == (code, True), done.err
    done = call("npu-plan", genuine("conv_relu.rk3588.fp16"), *BASE, "--uint8")
    assert done.code == 3 and "conv_relu.rk3588.fp16.rknn: " in done.err
    assert "how the NPU converts uint8 pixels" in done.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("soc", ["rk3562", "rk3576"])
def test_words_that_convert_pixels_themselves_stay(call: Call, soc: str) -> None:
    plain, pixels = (
        call("npu-plan", genuine(f"conv_relu.{soc}.i8"), *BASE, "--words", *more)
        for more in ((), ("--uint8",))
    )
    assert plain.code == pixels.code == 0 and plain.out == pixels.out


def test_a_set_of_shapes_is_chosen(call: Call) -> None:
    model = genuine("dynamic_three.rk3588.i8")
    for number, size in enumerate((3072, 2304, 1536)):
        done = call("npu-plan", model, *BASE, *IO[:3], "--shape", number, "--json")
        assert {b["name"]: b["bytes"] for b in done.data["buffers"]}["in0"] == size
        assert "several sets of shapes were never recorded" in done.data["never_recorded"][0]
