"""The call of the first NPU generation's library (RK1808, RV1109, RV1126), which its backend computes."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from .. import plugins
from ..errors import BackendUnavailable
from ..spi import Backend

__all__ = ["legacy_matmul"]

Array = NDArray[Any]


def legacy_matmul(
    a: Array, b: Array, transpose_b: bool = False, driver: str = "full", transpose_a: bool = False
) -> Array:
    """C = A^T x B as ``rknn_matmul_load``, ``load2``, ``run`` and ``unload`` of RK1808, RV1109 and RV1126 give it.

    Computed on the CPU: that library is another one than librknnrt. Restrictions are those of its manual.

    Args:
        a: [K, 1] or [K], or [1, K] with ``transpose_a``, uint8 or int8.
        b: [K, N], or [N, K] with ``transpose_b``; the same type.
        transpose_b: see ``b``; ``rknn_matmul_load2`` has both flags, ``rknn_matmul_load`` none.
        driver: ``"full"``, or ``"mini"``, which takes K of 128, 256 or 512, N of 4096 and no transposed B.
        transpose_a: see ``a``; M is 1, so that the same bytes stand for either shape.

    Returns:
        float32 [1, N]: the sums, which are exact up to 2^24 and rounded to float32 above.

    Raises:
        TargetPlatformUnmatch: the driver does not do that.
        InputInvalid: shapes or types do not fit.
        BackendUnavailable: no plugin is there that has this product.
    """
    for backend in plugins.backends().values():
        if type(backend).legacy_matmul is not Backend.legacy_matmul:
            product: Array = backend.legacy_matmul(a, b, transpose_b, driver, transpose_a)
            return product
    raise BackendUnavailable(
        f"no backend has the product of the first NPU generation{plugins.blame('rknn1rt')}"
    )
