"""A node with its tensors, as whoever makes something of it sees it: a kernel, nodes of another format."""

from __future__ import annotations

from functools import cached_property
from numbers import Real
from typing import Any, NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelInvalid
from rknnlite.tensor import DType

from .graph import Activation, Graph, Node, Tensor, TensorRole
from .operators import operator_of

__all__ = ["NodeView", "StepsOfSum"]

Array = NDArray[Any]
_SUMS = ("GlobalAveragePool", "ReduceMean", "ReduceSum")
"""Exact of integers, and of floats as their order has it."""
_SUMS_OF_TWO = ("Add", "AddRelu", "Sub", "SubRelu")


class StepsOfSum(NamedTuple):
    """The steps of a sum of centred a and b: ((a * first + start) + b * second) * factor, rounded, less zero, in float32."""

    first: np.float32
    second: np.float32
    start: np.float32
    factor: np.float32
    zero: np.float32


class NodeView:
    """One node of a graph; operands are asked for by their position."""

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

    def choice(self, name: str, *known: str) -> str:
        """The word of attribute ``name``, the first of ``known`` where it is absent; any other is refused, not guessed."""
        word = str(self.attrs.get(name) or known[0])
        if word not in known:
            raise self.fail(f"{name} {word!r} is not supported; known are {', '.join(known)}")
        return word

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """What the table of operators lists for this type: attributes, else what the file keeps elsewhere, else defaults.

        Raises ModelInvalid where one that should be a number is none.
        """
        row = operator_of(self.node.op)
        if row is None:
            return {}
        x = self.tensor(0).quant if self.has(0) else None
        found = row.values(self.attrs, self.node.stage, x)
        for each in row.parameters:
            if isinstance(each.default, Real) and not isinstance(found[each.name], Real):
                raise self.fail(f"{each.name} must be a number, not {found[each.name]!r:.60}")
        return found

    @cached_property
    def behind_bytes(self) -> bool:
        """Whether it gives integers of 8 bits, or floats that such are made of: they must not hang on who computes."""
        if self.graph.behind_bytes is None:
            self.graph.behind_bytes = _behind_bytes(self.graph)
        return self.node.index in self.graph.behind_bytes

    @cached_property
    def floats_behind_bytes(self) -> bool:
        """Whether such integers hang on the last bit of a float that the node makes: by a function, or by a sum of floats.

        Functions of bytes, and sums of them, are exact where they are computed so.
        """
        node = self.node
        if not self.behind_bytes:
            return False
        if node.conv is not None:
            table = node.fused is not None and node.fused.after is Activation.TABLE
            return not node.conv.quantised or (table and self.outputs[0].quant is None)
        row = operator_of(node.op)
        return row is not None and (row.floating or (row.name in _SUMS and not self.tensor(0).in_eight_bits))

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
            else:
                stored = stored.copy()  # kernels keep it, and the file may be cut while they do
            self._constants[position] = stored
        return self._constants[position]

    @cached_property
    def symmetric_step(self) -> Optional[np.float32]:
        """The step in which the second factor is requantised without zero point, as the NPU needs what it uses in place of weights.

        The step is max(|min|, |max|) / 127 of the calibrated range (measured: makes products bit-identical), or what the
        registers tell where the file has no ranges. None: it stays as it is, as where either factor is stored: there the weights
        have their zero point.
        """
        tensor = self.tensor(1)
        if self.is_const(0) or self.is_const(1) or tensor.quant is None or tensor.dtype.bits != 8:
            return None
        step = np.float32(self.attrs.get("b_step", 0))
        if tensor.value_range is not None:
            step = np.float32(max(abs(v) for v in tensor.value_range) / 127)
        return step if step > 0 else None

    @cached_property
    def steps_of_sum(self) -> Optional[StepsOfSum]:
        """How a sum of two integers is made in steps of the result, as the NPU of the first toolkit does it; None for others.

        By itself it takes ratios of steps; ``weighed``, which is a convolution of both, weights of 8 bits (measured).
        """
        known = self.node.op in _SUMS_OF_TWO and len(self.inputs) == 2 and self.outputs[0].zero_first
        quants = [tensor.quant for tensor in (*self.inputs, *self.outputs) if tensor is not None]
        if not known or None in quants:
            return None
        first, second, result = (np.float32(quant.scale) for quant in quants if quant is not None)
        sign = np.float32(-1 if self.node.op.startswith("Sub") else 1)
        if not self.attrs.get("weighed"):
            zero = np.float32(self.outputs[0].quant.zero_point if self.outputs[0].quant else 0)
            return StepsOfSum(first * (1 / result), sign * (second * (1 / result)), zero, np.float32(1), zero)
        step = (max(first, second) if sign > 0 else first + second) / np.float32(255)
        exact = float(sign * second) / float(step)
        a, b = np.float32(np.rint(float(first) / float(step))), np.float32(np.rint(exact))
        one, other = (
            tensor.quant.zero_point for tensor in self.inputs if tensor is not None and tensor.quant
        )
        start = np.float32(
            np.rint((one - other) * (exact - float(b)))
        )  # b is stored with a's zero point, the rest is a bias
        return StepsOfSum(a, b, start, np.float32(float(step) / float(result)), np.float32(0))

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


def _behind_bytes(graph: Graph) -> frozenset[int]:
    """Indices of nodes."""
    wanted, found = set[int](), set[int]()
    for node in reversed(graph.nodes):
        if any(index in wanted or graph.tensors[index].in_eight_bits for index in node.outputs):
            found.add(node.index)
            live = (graph.tensors[index] for index in node.inputs if index >= 0)
            wanted.update(t.index for t in live if t.quant is None and t.dtype.is_float)
    return frozenset(found)
