"""Heads whose positions are no multiple of 4, 13 x 13 and 7 x 7: the bytes that a board would put into memory.

A program for the zero-copy path reads them with the native attribute alone. So the tests index memory by hand, as the
NPU lays it out: groups of channels, each with its positions padded to a multiple of 4.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rknnlite.formats import ModelFile
from rknnlite.layout import nc1hwc2_to_nchw
from rknnlite.spi import AttrKind
from rknnlite.tensor import DType, Layout, TensorAttr
from tests.doubles.double import Double
from tests.doubles.double import model as double_model
from tests.rknnrt.conftest import double, library  # noqa: F401  fixtures
from tests.support import swept
from tests.support.corpus import genuine, golden_of, open_cpu

from .memories import bound, fill

HEADS = "odd_heads"


def heads(target: str) -> tuple[ModelFile, list[np.ndarray]]:
    return swept.model(HEADS, target), swept.arrays(swept.FOLDER / f"{HEADS}.tar.xz", "in")


def by_hand(attr: TensorAttr, memory: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """What lies in memory, element by element."""
    flat = memory.view(attr.dtype.numpy)
    n, c, h, w = np.indices(shape)
    _, groups, _, _, lanes = attr.dims
    surface = -(-shape[2] * shape[3] // 4) * 4
    return flat[((n * groups + c // lanes) * surface + h * shape[3] + w) * lanes + c % lanes]


def results(source: Any, inputs: list[np.ndarray], kind: AttrKind) -> list[tuple[TensorAttr, np.ndarray]]:
    """Run on bound memory; (attribute, bytes) of each output."""
    with open_cpu(source) as context:
        for attr, data in zip(context.attrs(AttrKind.NATIVE_NHWC_INPUT), inputs):
            dtype = DType.from_numpy(data.dtype)
            row = attr.w_stride if dtype.bits == attr.dtype.bits else 0
            fill(*bound(context, attr, dtype=dtype, w_stride=row), data)
        outputs = [bound(context, attr) for attr in context.attrs(kind)]
        context.run()
        return [(attr, mem.ndarray.copy()) for attr, mem in outputs]


def raw(source: Any, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """The same by the common path: elements as the file stores them, NCHW."""
    with open_cpu(source) as context:
        return [output.data for output in context.infer(*inputs, raw=True)]


@pytest.mark.parametrize(
    ("target", "dims"),
    [
        ("rk3588.i8", [(1, 2, 1, 172, 16), (1, 4, 1, 52, 16)]),
        ("rv1103b.i8", [(1, 3, 1, 172, 8), (1, 5, 1, 52, 8)]),
    ],
)
def test_bytes_of_the_heads(target: str, dims: list[tuple[int, ...]]) -> None:
    source, inputs = heads(target)
    wanted = raw(source, inputs)
    found = results(source, inputs, AttrKind.NATIVE_OUTPUT)
    assert [attr.dims for attr, _ in found] == dims
    for (attr, memory), head in zip(found, wanted):
        assert memory.size == attr.size_with_stride == attr.size
        assert np.array_equal(by_hand(attr, memory, head.shape), head)
        native = memory.view(attr.dtype.numpy).reshape(attr.dims)
        assert np.array_equal(nc1hwc2_to_nchw(native, head.shape[1], head.shape[2:]), head)


@pytest.mark.parametrize("kind", [AttrKind.OUTPUT, AttrKind.NATIVE_NHWC_OUTPUT])
def test_the_heads_in_other_layouts(kind: AttrKind) -> None:
    source, inputs = heads("rk3588.i8")
    for (attr, memory), head in zip(results(source, inputs, kind), raw(source, inputs)):
        assert attr.w_stride == 0
        found = memory[: head.size].view(attr.dtype.numpy).reshape(attr.dims)
        assert np.array_equal(found.transpose(0, 3, 1, 2) if attr.layout is Layout.NHWC else found, head)


@pytest.mark.parametrize("name", ["three_outputs.rk3568.i8", "mathematics.rk3568.fp16"])
def test_odd_outputs_of_other_files(name: str) -> None:
    inputs = golden_of(name).inputs
    wanted = raw(genuine(name), inputs)
    odd = 0
    for (attr, memory), head in zip(results(genuine(name), inputs, AttrKind.NATIVE_OUTPUT), wanted):
        if attr.layout is Layout.NC1HWC2 and head.shape[2] * head.shape[3] % 4:
            odd += 1
            assert attr.dims[2:4] == (1, -(-head.shape[2] * head.shape[3] // 4) * 4)
            assert np.array_equal(by_hand(attr, memory, head.shape), head)
    assert odd


def test_a_program_reads_the_same_on_a_board(double: Double) -> None:  # noqa: F811
    """The very lines that read a head on the PC, on a library that behaves as librknnrt does."""
    import rknnlite

    lines = ("input x int8 4 1 7 7 3 0.5 -3", "output y int8 4 1 20 7 7 0.5 -3 native", "op affine 1 0")
    for pixels in (np.arange(147, dtype=np.int8), np.arange(147, dtype=np.int8)[::-1]):
        with rknnlite.open(double_model(*lines)) as context:
            fill(*bound(context, context.native_inputs[0], pass_through=True), pixels.reshape(1, 7, 7, 3))
            (attr,) = context.native_outputs
            assert attr.dims == (1, 2, 1, 52, 16) and attr.size_with_stride == 1664
            attr, memory = bound(context, attr)
            context.run()
            stored = np.resize(pixels.reshape(1, 7, 7, 3).transpose(0, 3, 1, 2).reshape(-1), (1, 20, 7, 7))
            assert np.array_equal(by_hand(attr, memory.ndarray, (1, 20, 7, 7)), stored)
            native = memory.ndarray[: attr.size].view(np.int8).reshape(attr.dims)
            assert np.array_equal(nc1hwc2_to_nchw(native, 20, (7, 7)), stored)


@pytest.mark.parametrize(("target", "internal"), [("rk3588.i8", 9472), ("rv1103b.i8", 6880)])
def test_internal_memory_counts_inputs_and_outputs(target: str, internal: int) -> None:
    """The converter's own figures: 9.25 and 6.71875 KiB. One convolution, so no tensor is internal but those."""
    with open_cpu(heads(target)[0]) as context:
        assert context.memory().internal == internal


def test_an_output_asked_for_as_nhwc_has_no_row_padding() -> None:
    source, _ = heads("rk3588.i8")
    with open_cpu(source) as context:
        attrs = context.attrs(AttrKind.NATIVE_NHWC_OUTPUT)
        assert [(attr.layout, attr.w_stride) for attr in attrs] == [(Layout.NHWC, 0)] * len(attrs)
        assert 4096 <= context.memory().internal <= 16384
