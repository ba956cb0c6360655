"""How tensors lie in the NPU's memory."""

from __future__ import annotations

import numpy as np
import pytest
from rknnlite_npu.program import NpuTensor, read_program
from rknnlite_npu.tensor_bytes import TensorBytes

from rknnlite.errors import ModelInvalid, ModelUnsupported
from rknnlite.formats import ModelFile
from rknnlite.tensor import DType
from tests.support.corpus import DATA, genuine

FORMS = [
    ((1, 3, 4, 5), (1, 1, 4, 5, 3), DType.INT8, 1, 4 * 16 * 3),  # rows of 16 pixels
    ((1, 3, 4, 5), (1, 1, 4, 5, 3), DType.FLOAT16, 1, 4 * 8 * 3 * 2),
    ((1, 20, 3, 3), (1, 2, 3, 3, 16), DType.INT8, 4, 2 * 12 * 16),  # positions padded to 12
    ((3, 8, 1, 10), (3, 1, 1, 10, 16), DType.INT8, 1, 3 * 10 * 16),
    ((2, 10, 24), (2, 10, 24), DType.FLOAT16, 1, 960),
    ((1, 5), (1, 5), DType.INT64, 1, 40),
]


@pytest.mark.parametrize(("shape", "native", "dtype", "surface", "size"), FORMS)
def test_elements_come_back(
    shape: tuple[int, ...], native: tuple[int, ...], dtype: DType, surface: int, size: int
) -> None:
    form = TensorBytes.of(NpuTensor("x", 1, native, size, surface=surface), shape, dtype)
    assert form.nbytes == size
    values = np.arange(np.prod(shape)).reshape(shape).astype(dtype.numpy)
    place = np.full(size + 8, 0xAA, np.uint8)
    form.pack(values, place)
    assert np.array_equal(form.unpack(place), values)
    assert (place[size:] == 0xAA).all()
    if size > values.nbytes:
        used = np.zeros(size, bool)
        form.pack(np.full(shape, -1).astype(dtype.numpy), place)
        used[:] = place[:size] != 0
        assert used.sum() <= values.nbytes  # padding is 0


def test_channels_of_a_group_lie_together() -> None:
    form = TensorBytes.of(NpuTensor("x", 1, (1, 2, 2, 2, 16), 128), (1, 18, 2, 2), DType.INT8)
    place = np.zeros(128, np.uint8)
    form.pack(np.arange(72).reshape(1, 18, 2, 2).astype(np.int8), place)
    assert place[:3].tolist() == [0, 4, 8] and place[16:18].tolist() == [
        1,
        5,
    ]  # the next position is 16 bytes on
    assert place[64:67].tolist() == [64, 68, 0]


@pytest.mark.parametrize(
    ("shape", "native", "size", "error"),
    [
        ((1, 3, 4, 5), (1, 1, 4, 5, 3), 10, ModelInvalid),  # fewer bytes than its rows have
        ((1, 40, 4, 5), (1, 2, 4, 5, 16), 9999, ModelInvalid),  # more channels than its groups hold
        ((1, 3, 9, 5), (1, 1, 4, 5, 3), 9999, ModelInvalid),
        ((2, 3, 4), (1, 2, 4, 5, 16), 9999, ModelUnsupported),
        ((1, 3, 4, 5), (1, 0, 4, 5, 16), 9999, ModelUnsupported),
    ],
)
def test_what_its_bytes_do_not_hold_is_refused(
    shape: tuple[int, ...], native: tuple[int, ...], size: int, error: type[Exception]
) -> None:
    with pytest.raises(error):
        TensorBytes.of(NpuTensor("x", 1, native, size), shape, DType.INT8)


def test_every_input_and_output_of_the_corpus_has_a_form() -> None:
    count = 0
    for path in sorted(DATA.glob("*.rk3588.i8.rknn")):
        if path.stem.startswith(("removed", "dynamic")):
            continue
        program = read_program(ModelFile(genuine(path.stem)).model)
        for index, io in zip((*program.inputs, *program.outputs), program.io):
            form = TensorBytes.of(program.tensors[index], io.shape, io.dtype)
            assert form.nbytes <= program.tensors[index].size
            count += 1
    assert count > 150
