"""The product of the first NPU generation, against plain numpy."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from rknnlite import errors
from rknnlite.matmul import legacy_matmul


def test_it_is_loaded_when_it_is_asked_for() -> None:
    code = """
import sys, numpy as np, rknnlite.matmul
assert "rknnlite.matmul.legacy" not in sys.modules
from rknnlite.matmul import legacy_matmul
assert legacy_matmul.__module__ == "rknnlite.matmul.legacy"
assert "rknnlite_rknn1rt.matmul" not in sys.modules
legacy_matmul(np.ones((128, 1), np.uint8), np.ones((128, 2), np.uint8))
assert "rknnlite_rknn1rt.matmul" in sys.modules and "rknnlite_rknn1rt.loader" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_its_backend_it_is_an_error() -> None:
    code = """
import numpy as np
from rknnlite import errors
from rknnlite.matmul import legacy_matmul
try:
    legacy_matmul(np.ones((128, 1), np.uint8), np.ones((128, 2), np.uint8))
except errors.BackendUnavailable as error:
    assert "no backend has the product of the first NPU generation" in str(error)
else:
    raise AssertionError
"""
    disabled = {**os.environ, "RKNNLITE_DISABLE": "rknn1rt"}
    subprocess.run([sys.executable, "-c", code], check=True, env=disabled)


def test_what_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(ImportError, match="nothing_such"):
        from rknnlite.matmul import nothing_such  # noqa: F401


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("transposed", [False, True])
def test_legacy(dtype: Any, transposed: bool) -> None:
    rng = np.random.default_rng(0)
    info = np.iinfo(dtype)
    a = rng.integers(info.min, info.max + 1, (256, 1)).astype(dtype)
    b = rng.integers(info.min, info.max + 1, (256, 64)).astype(dtype)
    found = legacy_matmul(a, b.T if transposed else b, transposed)
    assert found.dtype == np.float32 and found.shape == (1, 64)
    assert np.array_equal(found, (a.T.astype(np.int64) @ b).astype(np.float32))
    assert np.array_equal(legacy_matmul(a[:, 0], b), found)
    assert np.array_equal(legacy_matmul(a.T, b, transpose_a=True), found)


@pytest.mark.parametrize(
    ("a", "b", "options", "error", "words"),
    [
        (np.zeros((8, 2), np.int8), np.zeros((8, 4), np.int8), {}, errors.InputInvalid, "M is 1"),
        (np.zeros((8, 1), np.int8), np.zeros((8, 4), np.uint8), {}, errors.InputInvalid, "both be uint8 or both"),
        (np.zeros((8, 1), np.int8), np.zeros((8, 4), np.int8), {"transpose_a": True}, errors.InputInvalid, r"\[1, K\]"),
        (np.zeros((8, 1), np.float32), np.zeros((8, 4), np.float32), {}, errors.InputInvalid, "float32"),
        (np.zeros((8, 1), np.int8), np.zeros((9, 4), np.int8), {}, errors.InputInvalid, "K is 8"),
        (np.zeros((8, 1), np.int8), np.zeros((8, 1 << 17), np.int8), {}, errors.TargetPlatformUnmatch, "65536"),
        (np.zeros((64, 1), np.int8), np.zeros((64, 4096), np.int8), {"driver": "mini"},
         errors.TargetPlatformUnmatch, "K of 128, 256, 512"),
        (np.zeros((128, 1), np.int8), np.zeros((4096, 128), np.int8), {"driver": "mini", "transpose_b": True},
         errors.TargetPlatformUnmatch, "B transposed"),
        (np.zeros((8, 1), np.int8), np.zeros((8, 4), np.int8), {"driver": "big"}, errors.ParamInvalid, "'big'"),
    ],
)  # fmt: skip
def test_legacy_restrictions(a: Any, b: Any, options: Any, error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        legacy_matmul(a, b, **options)


def test_legacy_mini_driver() -> None:
    a, b = np.ones((128, 1), np.uint8), np.ones((128, 4096), np.uint8)
    assert (legacy_matmul(a, b, driver="mini") == 128).all()
