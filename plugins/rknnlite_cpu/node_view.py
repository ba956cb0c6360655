"""How values live while a graph runs, and what an operator sees of its node.

Quantised tensors are carried as float32 arrays of *centred* integers ``v = q - zero_point``: real = v * scale,
padding is 0, and float32 matrix products of them are exact below 2**24. Floating tensors are carried as
float32 that is representable in their own type. Integer and bool tensors keep their numpy type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelInvalid
from rknnlite.graph import Graph, Node, Tensor, TensorRole
from rknnlite.quant import RANGES
from rknnlite.tensor import DType

__all__ = ["Array", "Kernel", "NodeView", "centred_range", "decode", "encode", "round_bf16", "round_f16"]

Array = NDArray[Any]
Kernel = Callable[[list[Array]], "list[Array]"]
"""Runtime values of the non-constant inputs -> values of the outputs."""

_F16_MAX = np.float32(65504)


def round_f16(values: Array) -> Array:
    """float32 -> nearest float16, as float32."""
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(np.float32)


def round_bf16(values: Array) -> Array:
    """float32 -> nearest bfloat16 (ties to even), as float32."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    result = (rounded & np.uint32(0xFFFF0000)).view(np.float32)
    return np.where(np.isfinite(values), result, values)


def centred_range(tensor: Tensor) -> tuple[np.float32, np.float32]:
    """Smallest and largest centred value of a quantised tensor."""
    assert tensor.quant is not None
    low, high = RANGES.get(tensor.dtype, (-(2**31), 2**31 - 1))
    return np.float32(low - tensor.quant.zero_point), np.float32(high - tensor.quant.zero_point)


def decode(values: Array, tensor: Tensor) -> Array:
    """Runtime value -> real value (integers without scale stay integers)."""
    if tensor.quant is not None:
        return values * np.float32(tensor.quant.scale)
    return values


def encode(real: Array, tensor: Tensor) -> Array:
    """Real value -> runtime value of ``tensor``: quantised, rounded to its float type, or cast."""
    if tensor.quant is not None:
        low, high = centred_range(tensor)
        scaled = np.rint(np.asarray(real, np.float32) / np.float32(tensor.quant.scale))
        return np.clip(scaled, low, high)
    if tensor.dtype is DType.FLOAT16:
        return round_f16(np.asarray(real, np.float32))
    if tensor.dtype is DType.BFLOAT16:
        return round_bf16(np.asarray(real, np.float32))
    if tensor.dtype is DType.FLOAT32:
        return np.asarray(real, np.float32)
    return _to_integer(np.asarray(real), tensor.dtype.numpy)


def _to_integer(values: Array, dtype: np.dtype[Any]) -> Array:
    if values.dtype.kind == "f" and dtype.kind in "iu":
        info = np.iinfo(dtype)
        values = np.clip(np.nan_to_num(values.astype(np.float64)), float(info.min), float(info.max))
    return values.astype(dtype)


class NodeView:
    """A node with its tensors, as the builder of an operator sees it."""

    def __init__(self, graph: Graph, node: Node) -> None:
        self.graph = graph
        self.node = node
        self.attrs = node.attrs
        self.inputs: list[Optional[Tensor]] = [graph.tensors[i] if i >= 0 else None for i in node.inputs]
        self.outputs: list[Tensor] = [graph.tensors[i] for i in node.outputs]
        self._constants: dict[int, Array] = {}

    def fail(self, text: str) -> ModelInvalid:
        """An error that names the node."""
        return ModelInvalid(f"node {self.node.label()}: {text}")

    def is_const(self, position: int) -> bool:
        """Whether operand ``position`` is stored in the file."""
        tensor = self.inputs[position] if position < len(self.inputs) else None
        return tensor is not None and tensor.role is TensorRole.CONST

    def has(self, position: int) -> bool:
        """Whether operand ``position`` is given at all."""
        return position < len(self.inputs) and self.inputs[position] is not None

    def tensor(self, position: int) -> Tensor:
        """Operand ``position``; ModelInvalid when it is absent."""
        if not self.has(position):
            raise self.fail(f"operand {position} is missing")
        tensor = self.inputs[position]
        assert tensor is not None
        return tensor

    def constant(self, position: int) -> Array:
        """The real value of a constant operand, decoded once."""
        if position not in self._constants:
            tensor = self.tensor(position)
            stored = tensor.value()
            if tensor.quant is not None and stored.dtype.kind in "iu":
                stored = (stored.astype(np.float64) - tensor.quant.zero_point) * tensor.quant.scale
                stored = stored.astype(np.float32)
            elif tensor.dtype is DType.BFLOAT16:
                stored = (stored.astype(np.uint32) << 16).view(np.float32)
            elif stored.dtype == np.float16:
                stored = stored.astype(np.float32)
            self._constants[position] = stored
        return self._constants[position]

    def ints(self, position: int, name: str) -> Optional[list[int]]:
        """A list of integers from a constant operand, else from attribute ``name``; None when absent."""
        if self.has(position) and self.is_const(position):
            return [int(v) for v in self.constant(position).reshape(-1)]
        value = self.attrs.get(name)
        if value is None:
            return None
        return [int(v) for v in (value if isinstance(value, (list, tuple)) else [value])]

    @property
    def live(self) -> list[int]:
        """Tensor indices of the inputs that are computed at run time, in order."""
        return [t.index for t in self.inputs if t is not None and t.role is not TensorRole.CONST]
