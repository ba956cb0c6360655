"""Whole int8 files for RV1103, RV1106, RV1103B, RV1106B and RV1126B: within a step of the vendor's simulator, and byte for byte
what ``fidelity="silicon"`` gives, whose formulas were proven on an RV1103.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rknnlite_npu.backend import MachineBackend
from rknnlite_npu.machine.refused import MachineRefused

import rknnlite
from rknnlite.errors import ModelInvalid
from rknnlite.formats import ModelFile
from rknnlite.spi import OpenOptions
from tests.support.corpus import DATA, genuine, goldens

from .test_corpus import FUSED, differences

FAMILIES = {"t3": ("rv1103", "rv1106"), "w1": ("rv1103b", "rv1106b"), "f3": ("rv1126b",)}
PRODUCTS = "the chip converts the first operand to another step, and rounds there"
EXPLAINED = {
    "deconv_k4_s2_silu.rv1106.i8": (2, FUSED),
    "product_tails.rv1106.i8": (2, PRODUCTS),
}
"""File -> how far it may be off, in steps; why."""
REFUSED = {
    "arithmetic.rv1103b.i8": "elements of eight bits that are not converted",
    "attention.rv1106.i8": "PROC_PRECISION = 0x2",
    "lstm.rv1106.i8": "ERDMA_DATA_SIZE = 0x3",
    "deconv_k4_s2.rv1126b.fp16": "IN_PRECISION = 0x2",
    "softmaxes.rv1103b.i8": "MODE = 0x2003031",
    "yolov5_decode.rv1126b.i8": "whole atoms of eight 16-bit numbers are transposed",
}
"""Files -> what of them is not understood: half floats, numbers of 32 bits per position, a maximum with bare numbers."""
TOO_SMALL = "acts_alone.rv1106.i8"
"""The converter gives two outputs less memory than its commands write."""
LEFT_TO_SIMULATOR = ("product_tails.rv1106.i8",)
"""Products of activations on RV1106, which the CPU reference has by the simulator's arithmetic."""
MOST_FARTHER = {"t3": 2, "w1": 0, "f3": 0}


def files(family: str) -> list[Path]:
    """Those that run."""
    found = [path for soc in FAMILIES[family] for path in sorted(DATA.glob(f"*.{soc}.i8.rknn"))]
    return [path for path in found if path.stem not in (*REFUSED, TOO_SMALL)]


def check(path: Path) -> None:
    allowed = EXPLAINED.get(path.stem, (1, ""))[0]
    assert all(quantised and steps <= allowed for quantised, steps in differences(path))


@pytest.mark.parametrize(
    "name",
    ["conv_uneven.rv1103.i8", "depthwise_5x5.rv1106.i8", "pooling.rv1106.i8", "residual_leaky_add.rv1106.i8", "act_silu.rv1106.i8",
     "conv_mul.rv1106.i8", "resize.rv1106.i8", "conv_uneven.rv1106b.i8", "deconv_k5_s3.rv1103b.i8", "unet_like.rv1103b.i8",
     "resnet_like.rv1126b.i8", "product_tails.rv1103b.i8", "channels.rv1103b.i8", "shapes.rv1103b.i8", "squeeze_excite.rv1103b.i8"],
)  # fmt: skip
def test_some_files(name: str) -> None:
    check(genuine(name))
    check_silicon(genuine(name))


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", [path for family in FAMILIES for path in files(family)], ids=lambda path: path.stem
)
def test_every_file(path: Path) -> None:
    check(path)
    if path.stem not in LEFT_TO_SIMULATOR:
        check_silicon(path)


def check_silicon(path: Path) -> None:
    inputs = [np.asarray(x, np.float32) for x in goldens(path.with_suffix(".npz"))[0].inputs]
    machine = MachineBackend().open(ModelFile(path), OpenOptions())
    with rknnlite.open(str(path), backend="cpu", fidelity="silicon") as reference:
        for one, other in zip(machine.infer(inputs), reference.infer(inputs)):
            assert np.array_equal(one, other)


@pytest.mark.parametrize(
    "name", ["mean_std.rv1103.i8", "conv_uneven.rv1106.i8", "mean_std.rv1106b.i8", "conv_7x7_s2.rv1103b.i8"]
)
def test_pixels_are_converted_as_the_file_says(name: str) -> None:
    """Byte for byte what the CPU reference gives for a board's inputs."""
    path = genuine(name)
    machine = MachineBackend().open(ModelFile(path), OpenOptions())
    pixels = [np.asarray(x, np.uint8) for x in goldens(path.with_suffix(".npz"))[0].inputs]
    with rknnlite.open(str(path), backend="cpu", fidelity="silicon", inputs="board") as reference:
        assert np.array_equal(machine.infer(pixels)[0], reference.infer(pixels)[0])
    as_numbers = machine.infer([x.astype(np.float32) for x in pixels])[0]
    assert not np.array_equal(machine.infer(pixels)[0], as_numbers)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_understood_is_refused(name: str) -> None:
    context = MachineBackend().open(ModelFile(genuine(name)), OpenOptions())
    with pytest.raises(MachineRefused, match=REFUSED[name]):
        context.infer([np.zeros(attr.dims, np.float32) for attr in context.inputs])


def test_outputs_that_would_overlap_are_refused() -> None:
    with pytest.raises(ModelInvalid, match="the file says 220"):
        MachineBackend().open(ModelFile(genuine(TOO_SMALL)), OpenOptions())


@pytest.mark.parametrize("family", FAMILIES)
def test_nearly_every_file_is_within_one_step(family: str) -> None:
    names = [path.stem for path in files(family)]
    assert len(names) > 8
    assert sum(name in EXPLAINED for name in names) <= MOST_FARTHER[family]


def test_opening_says_where_nobody_has_measured(caplog: pytest.LogCaptureFixture) -> None:
    for name, told in (("conv_1x1.rv1103b.i8", True), ("conv_1x1.rv1106.i8", False)):
        caplog.clear()
        MachineBackend().open(ModelFile(genuine(name)), OpenOptions())
        assert ("nobody has measured them on a chip" in caplog.text) is told
