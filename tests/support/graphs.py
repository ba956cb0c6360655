"""Graphs of one operator, built by hand and run by the CPU reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from rknnlite_cpu.plan import ExecutionPlan
from rknnlite_cpu.values import Array, decode, encode
from rknnlite_graph.graph import ConvParams, Graph, Node, RecurrentParams, Stage, Tensor, TensorRole
from rknnlite_graph.reading.fused_ops import fused_op

from rknnlite.tensor import DType, QuantParams

Shape = tuple[int, ...]


def tensor(
    name: str,
    shape: Sequence[int],
    dtype: DType = DType.FLOAT32,
    quant: QuantParams | None = None,
    value: Array | None = None,
    role: TensorRole = TensorRole.ACTIVATION,
) -> Tensor:
    """A tensor; with ``value`` (elements as stored) it is a constant."""
    role = role if value is None else TensorRole.CONST
    load = None if value is None else lambda: value
    return Tensor(0, name, dtype, tuple(shape), role, quant, load=load)


def constant(value: Any, quant: QuantParams | None = None) -> Tensor:
    """A constant operand."""
    array = np.asarray(value)
    return tensor("constant", array.shape, DType.from_numpy(array.dtype), quant, array)


def one_node(
    op: str,
    operands: Sequence[Tensor | None],
    results: Sequence[Tensor],
    attrs: dict[str, Any] | None = None,
    conv: ConvParams | None = None,
    stage: Stage | None = None,
    recurrent: RecurrentParams | None = None,
) -> ExecutionPlan:
    """A plan of one node; operands that are not constant are the graph's inputs, in order."""
    tensors: list[Tensor] = []
    for item in (*operands, *results):
        if item is not None and all(item is not known for known in tensors):
            item.index = len(tensors)
            tensors.append(item)
    node = Node(
        index=0, op=op, name=f"the_{op.lower()}", inputs=[-1 if t is None else t.index for t in operands],
        outputs=[t.index for t in results], attrs=attrs or {}, fused=fused_op(op), conv=conv, stage=stage, recurrent=recurrent,
    )  # fmt: skip
    live = [t.index for t in tensors if t.role is not TensorRole.CONST and all(t is not r for r in results)]
    return ExecutionPlan(Graph(tensors, [node], live, [t.index for t in results]), "hand-made")


def run(plan: ExecutionPlan, *arrays: Array) -> list[Array]:
    """Real values in, real values out."""
    graph = plan.graph
    feeds = {
        index: encode(np.asarray(array), graph.tensors[index]) for index, array in zip(graph.inputs, arrays)
    }
    outputs = plan.run(feeds)
    return [np.asarray(decode(outputs[index], graph.tensors[index])) for index in graph.outputs]


def compute(
    op: str,
    arrays: Sequence[Any],
    shape: Sequence[int],
    attrs: dict[str, Any] | None = None,
    dtype: DType = DType.FLOAT32,
    constants: Sequence[Any] = (),
) -> Array:
    """One float operator on ``arrays`` followed by ``constants``; its first output, ``shape`` as declared."""
    live = [tensor(f"x{i}", np.shape(a), DType.from_numpy(np.asarray(a).dtype)) for i, a in enumerate(arrays)]
    fixed = [None if c is None else constant(c) for c in constants]
    return run(one_node(op, [*live, *fixed], [tensor("y", shape, dtype)], attrs), *arrays)[0]
