"""Whole files on the machine, beside the vendor's simulator: int8 within one step, fp16 within a thousandth; files for RK3588,
and for RK3566 and RK3568.

Inputs are given as numbers, so that the stored integers are the simulator's. What is farther away is farther by a rule of the
chip, named here.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rknnlite_npu.backend import MachineBackend
from rknnlite_npu.machine.refused import MachineRefused

from rknnlite.errors import ModelUnsupported
from rknnlite.formats import ModelFile
from rknnlite.spi import OpenOptions
from rknnlite.tensor import DType
from tests.support.corpus import DATA, EXAMPLES, answers_of, genuine, goldens, open_cpu

SOFTMAX = "exponentials are a line through the bits of fp16, 3 % off"
TABLE = "tables are linear between 513 points, the simulator computes the function"
ROOTS = "roots and reciprocal roots are steps of Newton's on fp16 and bf16"
ELU = "the converter's table of an Elu is alpha exp(x) - 1 for alpha (exp(x) - 1), and ends at 0"
FUSED = "the simulator rounds to int8 in between, in steps that the file does not hold"
SQUARED = "a step of a table's is two where the result is squared"
STATES = "the file reads the first states where the input lies, not behind it"
FLOATS = "limits of int16 layers are float32 in registers of integers"

EXPLAINED: dict[str, tuple[float, str]] = {
    "act_gelu.rk3588.fp16": (1.7e-3, TABLE),
    "attention_mask.rk3588.fp16": (1.5e-2, SOFTMAX),
    "deconv_k4_s2_silu.rk3588.i8": (2, FUSED),
    "hidden_high.rk3588.fp16": (0.23, ELU),
    "hidden_low.rk3588.i8": (47, ELU),
    "int16_limits.rk3588.i16": (4300, FLOATS),
    "kept.rk3588.i8": (2, FUSED),
    "lstm.rk3588.fp16": (1.3, STATES),
    "mobilenetv3_like.rk3588.i8": (2.6e-2, SOFTMAX),
    "norms.rk3588.i8": (2, ROOTS),
    "operands.rk3588.fp16": (3.1e-3, ROOTS),
    "softmaxes.rk3588.i8": (3.1e-2, SOFTMAX),
    "vit_like.rk3588.i8": (2, SOFTMAX),
    "yolov5_decode.rk3588.i8": (2, SQUARED),
    "yolov8_dfl.rk3588.fp16": (3.5e-3, SOFTMAX),
}
"""File -> how far it may be off, in steps or in shares of the largest number; why."""
LOGITS = "the CPU's softmax of numbers that are a step off"
UNKNOWN = "four rounding steps of half floats; why is not known"
EXPLAINED_RK356X: dict[str, tuple[float, str]] = {
    "lenet_like.rk3566.i8": (5e-3, LOGITS),
    "mean_std.rk3568.fp16": (1.1e-3, UNKNOWN),
    "mobilenetv3_like.rk3568.i8": (5e-3, LOGITS),
    "yolov5_decode.rk3568.i8": (2, FUSED),
}
"""The same of RK3566 and RK3568."""
REFUSED_RK356X = {
    "bfloat_prelu.rk3568.bf16": "IN_PRECISION = 0x3",
    "dense.rk3568.fp16": "DPU DPU_RDMA PPU alone starts",
    "gru.rk3568.fp16": "DPU DPU_RDMA PPU alone starts",
    "mathematics.rk3568.fp16": "EW_ALU_ALGO = 0x3",
    "resize.rk3568.fp16": "flow into a stage of",
    "vit_like.rk3568.i8": "IN_PRECISION = 0x3",
}
"""Files of RK3566 and RK3568 -> what of them is not understood."""
WITHOUT_TABLES = ("bfloat_chain.rk3588.bf16", "int16_chain.rk3588.i16", "int16_fused.rk3588.i16")
"""Their activations need tables, which the files do not hold."""
INT16_STEPS = 6


def files() -> list[Path]:
    found = [*sorted(DATA.glob("*.rk3588.*.rknn")), EXAMPLES / "resnet18" / "resnet18_for_RK3588.rknn"]
    return [path for path in found if answers(path).exists() and path.stem not in WITHOUT_TABLES]


def files_rk356x() -> list[Path]:
    found = [path for soc in ("rk3566", "rk3568") for path in sorted(DATA.glob(f"*.{soc}.*.rknn"))]
    found = [path for path in found if path.stem not in REFUSED_RK356X and answers(path).exists()]
    return [*found, EXAMPLES / "resnet18" / "resnet18_for_RK3566_RK3568.rknn"]


def answers(path: Path) -> Path:
    beside = path.with_suffix(".npz")
    return beside if beside.exists() else answers_of(path)


def differences(path: Path) -> list[tuple[bool, float]]:
    """Per output (whether it is quantised, the largest difference in steps or in shares of the largest number)."""
    context = MachineBackend().open(ModelFile(path), OpenOptions())
    golden = goldens(answers(path))[0]
    inputs = [x.astype(np.float32) if x.dtype == np.uint8 else x for x in golden.inputs]
    found = []
    for attr, got, expected in zip(context.outputs, context.infer(inputs), golden.outputs):
        difference = np.abs(got.astype(np.float64) - expected)
        if attr.quant is not None and not attr.dtype.is_float:
            steps = float(np.rint(difference / attr.quant.scale).max())
            found.append((True, steps / INT16_STEPS if attr.dtype is DType.INT16 else steps))
        else:
            found.append((False, float(difference.max() / max(1e-9, np.abs(expected).max()))))
    return found


def check(path: Path) -> None:
    allowed, _ = {**EXPLAINED, **EXPLAINED_RK356X}.get(path.stem, (0.0, ""))
    for quantised, difference in differences(path):
        assert difference <= max(allowed, 1 if quantised else 1e-3)


@pytest.mark.parametrize(
    "name",
    ["act_silu.rk3588.i8", "conv_relu.rk3588.i8", "packed_mixed.rk3588.i8", "residual_add.rk3588.i8", "shapes.rk3588.i8",
     "two_images.rk3588.i8", "yuv.rk3588.i8", "conv_uneven.rk3588.fp16", "conv_wide.rk3566.i8", "packed_mixed.rk3568.i8",
     "residual_add.rk3566.i8", "unet_like.rk3568.i8", "act_hardswish.rk3566.fp16"],
)  # fmt: skip
def test_some_files(name: str) -> None:
    check(genuine(name))


@pytest.mark.slow
@pytest.mark.parametrize("path", files(), ids=lambda path: path.stem)
def test_every_file(path: Path) -> None:
    try:
        check(path)
    except ModelUnsupported as error:
        assert "graphs" in str(error), "only files of several shapes are not run"


@pytest.mark.slow
@pytest.mark.parametrize("path", files_rk356x(), ids=lambda path: path.stem)
def test_every_file_of_rk356x(path: Path) -> None:
    check(path)


@pytest.mark.parametrize("name", REFUSED_RK356X)
def test_what_rk356x_has_that_is_not_understood_is_refused(name: str) -> None:
    context = MachineBackend().open(ModelFile(genuine(name)), OpenOptions())
    with pytest.raises(MachineRefused, match=REFUSED_RK356X[name]):
        context.infer([np.zeros(attr.dims, np.float32) for attr in context.inputs])


def test_pixels_of_rk356x_are_converted_as_the_file_says() -> None:
    """By integers, so at most a step apart from numbers that were converted before."""
    context = MachineBackend().open(ModelFile(genuine("conv_relu.rk3566.i8")), OpenOptions())
    pixels = [
        np.asarray(x, np.uint8) for x in goldens(genuine("conv_relu.rk3566.i8").with_suffix(".npz"))[0].inputs
    ]
    as_pixels, as_numbers = (
        context.infer([x.astype(kind) for x in pixels])[0] for kind in (np.uint8, np.float32)
    )
    scale = context.outputs[0].quant.scale
    difference = np.abs(as_pixels.astype(np.float64) - as_numbers) / scale
    assert 0 < difference.max() < 8
    assert np.array_equal(context.infer([x.astype(np.uint8) for x in pixels])[0], as_pixels)


def test_opening_says_where_nobody_has_measured(caplog: pytest.LogCaptureFixture) -> None:
    for name, told in (("conv_relu.rk3566.i8", True), ("conv_relu.rk3588.i8", False)):
        caplog.clear()
        MachineBackend().open(ModelFile(genuine(name)), OpenOptions())
        assert ("nobody has measured them on a chip" in caplog.text) is told


@pytest.mark.slow
def test_nearly_every_int8_file_is_within_one_step() -> None:
    names = [path.stem for path in files() if ".i8" in path.stem or path.parent != DATA]
    assert sum(name in EXPLAINED for name in names) <= 0.09 * len(names)
    explained = {SOFTMAX, ELU, ROOTS, FUSED, SQUARED}
    assert {EXPLAINED[name][1] for name in names if name in EXPLAINED} <= explained


@pytest.mark.parametrize("name", [name for name, (_, why) in EXPLAINED.items() if why == FUSED])
def test_what_the_simulator_alone_rounds(name: str) -> None:
    """The CPU reference, which has the simulator's arithmetic but only the file, is within one step of the machine."""
    path = genuine(name)
    inputs = [x.astype(np.float32) for x in goldens(answers(path))[0].inputs]
    machine, here = MachineBackend().open(ModelFile(path), OpenOptions()), open_cpu(path)
    for attr, one, other in zip(machine.outputs, machine.infer(inputs), here.infer(inputs)):
        assert attr.quant is not None
        assert np.rint(np.abs(one - other) / attr.quant.scale).max() <= 1


@pytest.mark.parametrize("name", WITHOUT_TABLES)
def test_layers_without_their_tables_are_refused(name: str) -> None:
    context = MachineBackend().open(ModelFile(genuine(name)), OpenOptions())
    with pytest.raises(MachineRefused, match="no table was uploaded"):
        context.infer([np.zeros(attr.dims, np.float32) for attr in context.inputs])
