"""Shapes that are known at run time only: the model has several, and the operator asks for none of them before."""

from __future__ import annotations


class cstTurn:
    """Height and width change places."""

    op_type = "cstTurn"

    def shape_infer(self, node, in_shapes, in_dtypes):
        """Asked by the converter, once per shape of ``dynamic_input``; the file then has the shapes of all outputs."""
        n, c, h, w = in_shapes[0]
        return [[n, c, w, h]], [in_dtypes[0]]

    def compute(self, node, inputs):
        """``inputs[0].shape`` is the shape of this run."""
        return [inputs[0].transpose(0, 1, 3, 2)]
