"""Native layouts in and out, for every family of the corpus: the same elements by memory and by the common path."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rknnlite.formats import IoTensor
from rknnlite.spi import Context, Input
from rknnlite.tensor import DType, Layout, TensorAttr
from tests.support.corpus import DATA, genuine, golden_of, open_cpu

from .memories import bound, fill, plain

FAMILIES: dict[str, str] = {}
for _path in sorted(DATA.glob("*.npz")):
    FAMILIES.setdefault(_path.name.partition(".")[0], _path.stem)


@pytest.mark.parametrize("name", FAMILIES.values())
def test_native_memory_gives_what_the_common_path_gives(name: str) -> None:
    with opened(name) as common:
        given = [elements_of(attr, name) for attr in common.inputs]
        common.set_inputs([common_input(common, *each) for each in zip(common.native_inputs, given)])
        common.run()
        expected = common.get_outputs(False)
    with opened(name) as context:
        for attr, data in zip(context.native_inputs, given):
            attr, mem = bound(context, attr, pass_through=True)
            fill(attr, mem, data)
        results = [bound(context, attr) for attr in context.native_outputs]
        context.run()
        for (attr, mem), wanted in zip(results, expected):
            found = plain(attr, mem, wanted.shape)
            assert np.array_equal(found.view(np.uint8), wanted.view(np.uint8)), attr.name


def opened(name: str) -> Context:
    """On the CPU reference; a dynamic model with its first shape."""
    context = open_cpu(genuine(name))
    if context.shapes:
        context.set_shapes(context.shapes[0])
    return context


def elements_of(attr: TensorAttr, name: str) -> np.ndarray:
    """Elements as the tensor stores them: NHWC where it has rank 4."""
    rng = np.random.default_rng(attr.index)
    if attr.dtype in (DType.INT8, DType.INT16):
        limits = np.iinfo(attr.dtype.numpy)
        return rng.integers(limits.min, limits.max + 1, attr.dims).astype(attr.dtype.numpy)
    eighths = rng.integers(-16, 17, attr.dims) / np.float32(8)
    if attr.dtype is DType.BFLOAT16:
        return (eighths.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return eighths.astype(np.float16) if attr.dtype is DType.FLOAT16 else golden_of(name).inputs[attr.index]


def common_input(context: Context, native: TensorAttr, stored: np.ndarray) -> Input:
    """The same by the common path: as real pixels where the native layout has groups, so that nothing is unpacked."""
    if native.layout is not Layout.NC1HWC2:
        return Input(native.index, stored, Layout.NHWC, pass_through=True)
    io: IoTensor = context._shapes.current.ins[native.index]  # type: ignore[attr-defined]
    real: Any = stored.astype(np.float32)
    if io.quant is not None:
        real = (real - io.quant.zero_point) * np.float32(io.quant.scale)
    return Input(native.index, real * np.float32(io.std) + np.float32(io.mean), Layout.NHWC)


def test_an_input_for_the_cpu_is_packed_like_any_other() -> None:
    """The file keeps it in the model's order (its first operator runs on the CPU); table 5-1 says NC1HWC2."""
    with open_cpu(genuine("ranking.rk3588.fp16")) as context:
        (native,) = context.native_inputs
        (io,) = context._shapes.current.ins  # type: ignore[attr-defined]
        assert len(io.native_shape) == 4
        assert (native.layout, native.dims) == (Layout.NC1HWC2, (1, 2, 4, 9, 8))


@pytest.mark.parametrize(
    ("name", "dims"),
    [
        ("mean_std.rk3588.i8", (1, 2, 20, 24, 16)),  # 8 channels fill half a group
        ("hidden_high.rk3588.fp16", (1, 6, 12, 10, 8)),
        ("batch_four.rk3588.i8", None),
    ],
)
def test_outputs_have_the_groups_of_the_file(name: str, dims: tuple[int, ...] | None) -> None:
    with open_cpu(genuine(name)) as context:
        for native, io in zip(context.native_outputs, context._shapes.current.outs):  # type: ignore[attr-defined]
            if len(io.native_shape) == 5:
                assert native.dims == (native.dims[0], *io.native_shape[1:])
                assert native.size_with_stride == native.size and native.w_stride == 0
        assert dims is None or context.native_outputs[0].dims == dims
