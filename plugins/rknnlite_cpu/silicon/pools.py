"""Average pools of 8 bits: a window's sum times two reciprocals of 16 bits, rounded as it was measured on RK3588 and RK3576.

A mean goes to the nearest step. Halves go to even where the reciprocals of both sides are exact, else one step towards zero.
RV1103 was measured with windows of 2 x 2, whose halves go to even as well.
"""

from __future__ import annotations

import numpy as np
from rknnlite_graph.node_view import NodeView

from ..kernels.conv import pad2d, windows
from ..ops.pool import window_spec
from ..values import Kernel
from .arithmetic import Array

__all__ = ["average_kernel", "mean_of_sum"]

_ONE = 1 << 16


def mean_of_sum(total: Array, height: int, width: int) -> Array:
    """Means of windows of ``height`` x ``width`` stored values from their sums; whole numbers in double.

    Examples:
        >>> mean_of_sum(np.array([2.0, 6.0, -2.0, 7.0]), 2, 2)
        array([ 0.,  2., -0.,  2.])
        >>> mean_of_sum(np.array([9.0, 27.0]), 3, 6)  # no side's reciprocal is exact
        array([0., 1.])
    """
    count = height * width
    mean = total / count
    if _ONE % height == 0 and _ONE % width == 0:
        return np.asarray(np.rint(mean))
    size = np.floor((np.abs(total) + count // 2) / count)
    half = 2 * np.abs(total) == (2 * size - 1) * count
    return np.asarray(np.copysign(size - half, total))


def average_kernel(view: NodeView) -> Kernel | None:
    """The kernel of an average pool whose result has the steps of its operand, which count the padding; else None."""
    x, y = view.tensor(0), view.outputs[0]
    if len(x.shape) != 4 or x.quant is None or x.quant != y.quant:
        return None
    spec = window_spec(view)
    if spec.dilations != (1, 1) or (any(spec.padding) and not view.attrs.get("count_include_pad")):
        return None
    zero = np.float32(x.quant.zero_point)

    def kernel(values: list[Array]) -> list[Array]:
        stored = pad2d(values[0] + zero, spec.padding, float(zero))
        total = windows(stored, spec).sum(axis=(2, 3), dtype=np.float64)
        return [(mean_of_sum(total, *spec.kernel) - zero).astype(np.float32)]

    return kernel
