"""The product of the first NPU generation (RK1808, RV1109, RV1126), whose library is another one than librknnrt."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import InputInvalid, ParamInvalid, TargetPlatformUnmatch
from rknnlite.log import logger

__all__ = ["legacy_matmul"]

Array = NDArray[Any]
_MINI_K, _MINI_N = (128, 256, 512), 4096
_FULL_N = 1 << 16
_ADVISED_K = range(128, 2049)


def legacy_matmul(
    a: Array, b: Array, transpose_b: bool = False, driver: str = "full", transpose_a: bool = False
) -> Array:
    """See ``rknnlite.matmul.legacy_matmul``; computed on the CPU, with the restrictions of the library's manual."""
    left, right = np.asarray(a), np.asarray(b)
    if driver not in ("full", "mini"):
        raise ParamInvalid(f"driver {driver!r} is not 'full' or 'mini'")
    if left.dtype not in (np.int8, np.uint8) or right.dtype != left.dtype:
        raise InputInvalid(f"A and B must both be uint8 or both int8, got {left.dtype} and {right.dtype}")
    column = left.reshape(-1, 1) if left.ndim == 1 else left.T if transpose_a else left
    if column.ndim != 2 or column.shape[1] != 1:
        wanted = "[1, K] with transpose_a" if transpose_a else "[K, 1]"
        raise InputInvalid(f"A must be {wanted}: M is 1 on this generation; got {list(left.shape)}")
    matrix = right.T if transpose_b else right
    if matrix.ndim != 2 or len(matrix) != len(column) or not matrix.size:
        raise InputInvalid(f"B has shape {list(right.shape)}, K is {len(column)}")
    depth, width = matrix.shape
    if driver == "mini" and (transpose_b or depth not in _MINI_K or width != _MINI_N):
        raise TargetPlatformUnmatch(
            f"the mini driver takes K of {', '.join(map(str, _MINI_K))}, N={_MINI_N} and B as [K, N]; "
            f"got K={depth}, N={width}{', B transposed' if transpose_b else ''}; use the full driver"
        )
    if width > _FULL_N:
        raise TargetPlatformUnmatch(f"N={width} is above {_FULL_N}; cut B into columns")
    if depth not in _ADVISED_K or depth & (depth - 1) or width % 2:
        logger.warning(
            "K=%d, N=%d: the manual advises K a power of two of 128 to 2048 and N even", depth, width
        )
    product: Array = column.T.astype(np.float64) @ matrix.astype(np.float64)
    return product.astype(np.float32)
