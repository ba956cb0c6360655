"""Quantize/DequantizeLinear in the file's own steps: what makes a float graph a quantisation-aware one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_graph.float_graph import weight_steps
from rknnlite_graph.graph import Graph, Node, Tensor

from rknnlite.quant import RANGES
from rknnlite.tensor import DType

from .emitter import Emitter

__all__ = ["stored_weights", "through_steps"]

Array = NDArray[Any]
_BYTES = {DType.INT8: np.int8, DType.UINT8: np.uint8}


def through_steps(e: Emitter, name: str, tensor: Tensor) -> str:
    """A real value rounded to what a quantised tensor can store; its own 8 bits and zero point.

    Operator set 17 knows 8 bits only: wider tensors (int16) are rounded and limited in float.
    """
    assert tensor.quant is not None
    scale, zero = tensor.quant.scale, tensor.quant.zero_point
    low, high = RANGES.get(tensor.dtype, (-(2**31), 2**31 - 1))
    kind = _BYTES.get(tensor.dtype)
    if kind is not None and low <= zero <= high:
        stored = e.node("QuantizeLinear", name, e.constant(scale), e.constant(zero, kind))
        return e.node("DequantizeLinear", stored, e.constant(scale), e.constant(zero, kind))
    steps = e.node("Round", e.node("Div", name, e.constant(scale)))
    limits = [e.constant(float(limit - zero)) for limit in (low, high)]
    return e.node("Mul", e.node("Clip", steps, *limits), e.constant(scale))


def stored_weights(
    e: Emitter, node: Node, graph: Graph, laid: Callable[[Array], Array], axis: int
) -> Optional[str]:
    """The weights of a convolution of the file as its own 8 bits, with scales and zero points per channel.

    ``laid`` puts stored weights into the order of ONNX, where output channels are ``axis``. None: they are no such weights.
    """
    steps = weight_steps(node, graph)
    if node.conv is None or node.conv.zero_point is None or steps is None:
        return None
    whole, zeros = node.conv.weight(), np.rint(node.conv.zero_point)
    kind = next((kind for kind in _BYTES.values() if _fits(kind, whole) and _fits(kind, zeros)), None)
    if kind is None or (zeros != node.conv.zero_point).any():
        return None
    scales, offsets = e.constant(steps.reshape(-1)), e.constant(zeros.reshape(-1), kind)
    return e.node("DequantizeLinear", e.constant(laid(whole), kind), scales, offsets, axis=axis)


def _fits(kind: Any, values: Array) -> bool:
    limits = np.iinfo(kind)
    return bool(limits.min <= values.min() and values.max() <= limits.max)
