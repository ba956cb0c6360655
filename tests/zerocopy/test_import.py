"""Memory of others by its descriptor, on the CPU reference and on the test double of librknnrt."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rknnlite
from rknnlite import errors
from rknnlite.spi import Context
from tests.doubles.double import model
from tests.rknnrt.conftest import double, library  # noqa: F401  fixtures
from tests.support.corpus import genuine

LINES = ("input image int8 4 1 4 6 3 1 0", "output scores float32 4 1 3 4 6", "op affine 2 1")


@pytest.fixture(params=["cpu", "rknnrt"])
def context(request: pytest.FixtureRequest) -> Iterator[Context]:
    source: Any = genuine("mean_std.rk3588.i8")
    if request.param == "rknnrt":
        request.getfixturevalue("double")
        source = model(*LINES)
    with rknnlite.open(source, backend=request.param) as opened:
        yield opened


@pytest.fixture
def fd() -> Iterator[int]:
    number = os.memfd_create("frame")
    os.ftruncate(number, 1 << 16)
    yield number
    os.close(number)


def test_all_of_a_descriptor(context: Context, fd: int) -> None:
    mem = context.import_fd(fd)
    assert mem.size == 1 << 16
    os.pwrite(fd, b"\x05\x06", 0)
    assert mem.ndarray[:2].tolist() == [5, 6]
    assert context.import_fd(fd, offset=4096).size == (1 << 16) - 4096
    assert context.import_fd(fd, 64, 128).size == 64


def test_frames_of_another_program_are_inputs(context: Context, fd: int) -> None:
    (native,) = context.native_inputs
    context.bind(native, context.import_fd(fd))
    results = []
    for out in context.native_outputs:
        mem = context.create_mem(out.size_with_stride)
        context.bind(out, mem)
        results.append(mem.ndarray)
    found = []
    for value in (3, 90):
        os.pwrite(fd, bytes([value]) * native.size_with_stride, 0)
        context.run()
        found.append(np.concatenate(results))
    assert not np.array_equal(*found)


@pytest.mark.parametrize("offset", [1 << 16, 1 << 20])
def test_nothing_is_left_behind_the_end(context: Context, fd: int, offset: int) -> None:
    with pytest.raises(errors.ParamInvalid):
        context.import_fd(fd, offset=offset)


def test_what_is_no_descriptor(context: Context, tmp_path: Path) -> None:
    with pytest.raises(errors.ParamInvalid, match="descriptor 999999 cannot be imported"):
        context.import_fd(999_999)
    empty = os.open(tmp_path / "empty", os.O_CREAT | os.O_RDWR)
    with pytest.raises(errors.ParamInvalid):
        context.import_fd(empty)
    os.close(empty)
