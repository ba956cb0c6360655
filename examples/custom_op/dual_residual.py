"""The operator in Python: the class that the PC toolkit takes, unchanged on every backend."""

from __future__ import annotations

try:  # on the PC, converting
    from rknn.api.custom_op import get_node_attr
except ImportError:  # on the board, or testing on a PC
    from rknnlite.api.custom_op import get_node_attr


class cstDualResidual:
    """Two inputs of one shape, two outputs: ``x * alpha - y`` and ``y * alpha - x``."""

    op_type = "cstDualResidual"

    def shape_infer(self, node, in_shapes, in_dtypes):
        return [in_shapes[0], in_shapes[1]], [in_dtypes[0], in_dtypes[1]]

    def compute(self, node, inputs):
        x, y = inputs
        alpha = get_node_attr(node, "alpha")
        return [x * alpha - y, y * alpha - x]
