"""Attributes of every type: numbers, texts, lists of both; what would be a tensor is a constant input."""

from __future__ import annotations

import numpy as np

try:  # where it runs
    from rknnlite.api.custom_op import get_node_attr
except ImportError:  # where it is converted
    from rknn.api.custom_op import get_node_attr


class cstSteps:
    """Steps in the order of ``steps`` (texts): mean, power, table; then ``* gain``, and rolled by ``origin`` if it wraps.

    Attributes: ``power`` int, ``gain`` float, ``mode`` text (wrap, none), ``origin`` two ints, ``mean`` a float per
    channel. The table has a value per channel; the file of a model does not hold tensors as attributes, so it is an input.
    """

    op_type = "cstSteps"

    def shape_infer(self, node, in_shapes, in_dtypes):
        return [in_shapes[0]], [in_dtypes[0]]

    def compute(self, node, inputs):
        x, table = inputs
        mean = np.array(get_node_attr(node, "mean"), np.float32).reshape(1, -1, 1, 1)
        for step in get_node_attr(node, "steps"):  # several texts are bytes
            if step == b"mean":
                x = x - mean
            elif step == b"power":
                x = x ** get_node_attr(node, "power")
            elif step == b"table":
                x = x + table
            else:
                raise ValueError(f"there is no step {step!r}")
        x = x * np.float32(get_node_attr(node, "gain"))
        if get_node_attr(node, "mode") == "wrap":  # one text is str
            x = np.roll(x, get_node_attr(node, "origin"), axis=(2, 3))
        return [x]
