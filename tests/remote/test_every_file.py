"""Every file of the corpus on a board from afar and here: outputs, attributes, figures and memory are the same to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rknnlite
from rknnlite import errors
from rknnlite.spi import AttrKind
from tests.support.corpus import DATA, genuine, golden_of

FILES = sorted(path.stem for path in DATA.glob("*.rknn"))
SOME = (
    "act_prelu.rk3588.i8",
    "batch_four.rk3562.i8",
    "broadcast.rk3588.fp16",
    "bfloat_chain.rk3576.bf16",
    "dynamic_two.rk3588.fp16",
)


def inputs_of(name: str, context: Any) -> list[Any]:
    try:
        return list(golden_of(name).inputs)
    except Exception:  # a file without expected outputs
        drawn = np.random.default_rng(0)
        return [
            drawn.integers(0, 5, attr.dims).astype(
                np.float32 if attr.quant is not None or attr.dtype.is_float else attr.dtype.numpy
            )
            for attr in context.inputs
        ]


def alike(name: str, board: str) -> None:
    path = genuine(name)
    try:
        here = rknnlite.open(path, backend="cpu")
    except errors.RknnError as error:
        with pytest.raises(type(error)):
            rknnlite.open(path, device_id=board)
        return
    with here, rknnlite.open(path, device_id=board) as there:
        for kind in AttrKind:
            assert there.attrs(kind) == here.attrs(kind), kind
        assert there.memory() == here.memory() and there.shapes == here.shapes and there.soc == here.soc
        given = inputs_of(name, here)
        for got, wanted in zip(there.infer(*given), here.infer(*given)):
            assert got.dtype == wanted.dtype and got.shape == wanted.shape
            assert np.array_equal(got, wanted, equal_nan=True)
        for got, wanted in zip(there.infer(*given, raw=True), here.infer(*given, raw=True)):
            assert got.data.dtype == wanted.data.dtype and got[1:] == wanted[1:]
            assert np.array_equal(got.data, wanted.data, equal_nan=True)
        one, other = there.perf_table(), here.perf_table()
        assert one.columns == other.columns
        assert [(row.op, row.name) for row in one] == [(row.op, row.name) for row in other]


@pytest.mark.parametrize("name", SOME)
def test_some(name: str, board: str) -> None:
    alike(name, board)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FILES if name not in SOME])
def test_all(name: str, board: str) -> None:
    alike(name, board)
