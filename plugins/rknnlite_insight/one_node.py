"""One run of a custom operator on arrays, without any model: for tests of operators, and for networks run elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.spi.custom_op import OpContext, OpNode, as_custom_op
from rknnlite.tensor import DType, Layout, TensorAttr

__all__ = ["run_op"]

Array = NDArray[Any]


def run_op(
    op: Any,
    inputs: Sequence[Any],
    outputs: Sequence[Array],
    attrs: Optional[Mapping[str, Any]] = None,
    node: Optional[OpNode] = None,
) -> list[Array]:
    """Let an operator compute once: ``init``, ``compute``, ``destroy``. Whatever it raises comes out as it is.

    Args:
        op: a ``CustomOp``, or the PC toolkit's plain class.
        inputs: arrays as the operator gets them behind a model: float32 in NCHW order, integers in their own type.
        outputs: arrays of the right shapes and types; they are filled, and returned as a list.
        attrs: the attributes of the node. node: the whole node instead.
    """
    op = as_custom_op(op)
    node = node or OpNode(op.op_type, op.op_type, dict(attrs or {}))
    given = [_read_only(array) for array in inputs]
    filled = list(outputs)
    ctx = OpContext(node, _attrs(given, node.input, "input"), _attrs(filled, node.output, "output"))
    op.init(ctx, given, filled)
    try:
        op.compute(ctx, given, filled)
    finally:
        op.destroy(ctx)
    return filled


def _read_only(array: Any) -> Array:
    view: Array = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def _attrs(arrays: Sequence[Array], names: Sequence[str], side: str) -> list[TensorAttr]:
    named = [*names, *(f"{side}{i}" for i in range(len(names), len(arrays)))]
    return [
        TensorAttr(
            index,
            named[index],
            array.shape,
            DType.from_numpy(array.dtype),
            Layout.NCHW if array.ndim == 4 else Layout.UNDEFINED,
        )
        for index, array in enumerate(arrays)
    ]
