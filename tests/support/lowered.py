"""Nodes lowered to ONNX and run by onnxruntime, each alone, beside the numpy kernels on the same operands.

``INEXACT`` says once more, on purpose, what ``rknnlite_graph.operators`` says of operators by ``floating``: the judge of the
lowerings must not grow lenient because a row of that table did. ``tests/graph/test_operators.py`` has both agree.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import pytest
from rknnlite_cpu.plan import ExecutionPlan, Step, Watch
from rknnlite_graph.graph import Graph, Node, Tensor
from rknnlite_graph.lowering import Form, NotLowered, Segment

from rknnlite.quant import RANGES
from rknnlite.tensor import DType

Array = np.ndarray
_NOISE = 2.0**-20


@dataclass(frozen=True)
class Verdict:
    """How one result of a lowered node, or ``reason`` why it is not lowered, compares with the numpy kernel's.

    ``different`` is the number of elements that differ (of float16 by more than one unit in the last place), ``worst`` the
    largest difference: in steps of a quantised tensor, in units in the last place of float16, in real numbers otherwise.
    Units of float16 are at least a millionth of the largest result: that is what sums leave of terms that cancel out.
    """

    node: Node
    tensor: Tensor
    different: int = 0
    worst: float = 0.0
    reason: str = ""
    off: float = 0.0
    """The largest difference as it is."""
    precise: bool = False
    """Whether it was written so that every engine has the same bytes."""

    @property
    def same(self) -> float:
        """The part of elements that do not differ."""
        return 1 - self.different / max(1, prod(self.tensor.shape))

    def __str__(self) -> str:
        text = self.reason or f"{self.same:.6f} the same, worst {self.worst:g}"
        return f"{self.node.label()} -> {self.tensor.dtype.short}{list(self.tensor.shape)}: {text}"


def random_inputs(graph: Graph, seed: int = 0) -> dict[int, Array]:
    """Values of the graph inputs, as a plan carries them."""
    rng = np.random.default_rng(seed)
    return {index: _random(rng, graph.tensors[index]) for index in graph.inputs}


def _random(rng: np.random.Generator, tensor: Tensor) -> Array:
    if tensor.quant is not None:
        low, high = RANGES.get(tensor.dtype, (-(2**15), 2**15 - 1))
        whole = rng.integers(low, high + 1, tensor.shape) - tensor.quant.zero_point
        return whole.astype(np.float32)
    if tensor.dtype is DType.FLOAT16:
        return rng.normal(size=tensor.shape).astype(np.float16).astype(np.float32)
    if tensor.dtype.is_float:
        return rng.normal(size=tensor.shape).astype(np.float32)
    return rng.integers(0, 2, tensor.shape).astype(tensor.dtype.numpy)


class _Recorder(Watch):
    def __init__(self) -> None:
        self.taken: list[tuple[Step, dict[int, Array], dict[int, Array]]] = []
        self._operands: dict[int, Array] = {}

    def before(self, step: Step, values: dict[int, Array]) -> None:
        self._operands = {index: values[index] for index in step.sources}

    def after(self, step: Step, seconds: float, values: Mapping[int, Array]) -> None:
        self.taken.append((step, self._operands, {index: values[index] for index in step.targets}))


def recorded(
    graph: Graph, feeds: Mapping[int, Array]
) -> list[tuple[Node, dict[int, Array], dict[int, Array]]]:
    """(node, its operands, its results) of every node that the numpy kernels compute."""
    recorder = _Recorder()
    ExecutionPlan(graph, "a model").run(feeds, recorder)
    return [(step.node, operands, results) for step, operands, results in recorder.taken]


def run(
    graph: Graph, nodes: Sequence[Node], feeds: Mapping[int, Array], outputs: Sequence[int], form: Form
) -> list[Array]:
    """Some nodes of a graph as one segment in onnxruntime."""
    from rknnlite_onnx.lowering import OnnxLowering

    engine = engine_of_tests()
    if form.in_bytes and not engine.form.in_bytes:
        pytest.skip(f"{engine.version} does not compute in bytes exactly")
    segment = Segment(nodes, list(feeds), list(outputs))
    names = [segment.tensor_name(index) for index in outputs]
    program = engine.compile(OnnxLowering().segment(graph, segment, form), names, 1)
    return list(program.run(list(feeds.values())))


@functools.cache
def engine_of_tests() -> Any:
    """The engine that runs segments, with the settings that users get."""
    from rknnlite_cpu.engines.with_onnxruntime import OnnxRuntime

    return OnnxRuntime()


def judged(graph: Graph, form: Form, feeds: Mapping[int, Array] | None = None) -> Iterator[Verdict]:
    """Every node alone, fed with the operands that the numpy kernels had."""
    for node, operands, results in recorded(graph, random_inputs(graph) if feeds is None else feeds):
        yield from judged_alone(graph, node, operands, results, form)


def judged_alone(
    graph: Graph, node: Node, operands: Mapping[int, Array], results: Mapping[int, Array], form: Form
) -> Iterator[Verdict]:
    """One node on given operands beside the given results."""
    tensors = [graph.tensors[index] for index in results]
    try:
        found = run(graph, [node], operands, list(results), form)
    except NotLowered as error:
        if form.precise:  # engines do not get it, unless a caller wants what is near and fast
            yield from judged_alone(graph, node, operands, results, form.near)
        else:
            yield Verdict(node, tensors[0], reason=f"not lowered: {error}")
        return
    for tensor, mine, wanted in zip(tensors, found, results.values()):
        yield replace(compared(node, tensor, mine, wanted), precise=form.precise and tensor.in_eight_bits)


def compared(node: Node, tensor: Tensor, mine: Array, wanted: Array) -> Verdict:
    """One result beside the numpy kernel's."""
    if mine.shape != wanted.shape or mine.dtype != wanted.dtype:
        reason = f"{mine.dtype}{mine.shape} instead of {wanted.dtype}{wanted.shape}"
        return Verdict(node, tensor, wanted.size, np.inf, reason)
    floating = mine.dtype.kind == "f"
    other = mine != wanted
    if floating:
        other &= ~(np.isnan(mine) & np.isnan(wanted))
    if not other.any():
        return Verdict(node, tensor)
    with np.errstate(invalid="ignore"):
        off = np.where(other, np.abs(mine.astype(np.float64) - wanted), 0)
    plain = float(np.where(np.isnan(off), np.inf, off).max())
    if tensor.dtype is DType.FLOAT16:
        size = np.where(np.isfinite(wanted), np.abs(wanted), 0)
        unit = np.spacing(np.maximum(size, 2.0**-14).astype(np.float16)).astype(np.float64)
        off = off / np.maximum(unit, size.max() * _NOISE)
        other &= ~(off <= 1)
    return Verdict(
        node, tensor, int(other.sum()), float(np.where(np.isnan(off), np.inf, off).max()), off=plain
    )


INEXACT = frozenset(
    {
        "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Celu", "Cos", "Cosh", "DFT", "Det", "Einsum", "Elu", "Erf",
        "Exp", "GRU", "Gelu", "Gemm", "GlobalLpPool", "GridSample", "GroupNormalization", "LRN", "LSTM",
        "LayerNormalization", "Log", "LogSoftmax", "LpPool", "MatMul", "MeanVarianceNormalization", "Mish", "Pow",
        "RNN", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceProd", "ReduceSumSquare", "RoiAlign",
        "Selu", "Sigmoid", "Sin", "Sinh", "Softmax",
        "Softplus", "Softsign", "Sqrt", "Tan", "Tanh", "exGRU", "exGelu", "exGlu", "exLSTM", "exMatMul", "exMish",
        "exNorm", "exSDPAttention", "exSoftmax13", "exSwish",
    }
)  # fmt: skip
"""Types whose results hang on the last bit of a float. See the head of this module."""
_SHARE, _SHARE_FINE, _FEW = 0.001, 0.005, 3
_HALF, _SINGLE = 2e-3, 1e-4


def exact(verdict: Verdict) -> bool:
    """Whether the result of a node is to be the same to the byte: no transcendental function, no sum of floats."""
    node, stored = verdict.node, verdict.tensor
    if stored.quant is None and stored.dtype.is_float:
        return False
    fused = node.fused
    behind = fused.function.replace("Ex", "ex", 1) if fused is not None else ""
    return (behind or node.op) not in INEXACT


def accepted(verdict: Verdict, largest: float) -> bool:
    """Whether a lowered node computes what the numpy kernel does; ``largest`` is the kernel's largest result.

    Integers are the same; those that are near only, or have 16 bits, are neighbours in 0.1 %. Floating results differ by what
    another order of adding makes.
    """
    if verdict.reason or verdict.precise or exact(verdict):
        return not verdict.reason and not verdict.different
    fine = verdict.tensor.dtype is DType.INT16  # 65536 steps: the last bit of a function is seen more often
    few = verdict.different <= max(_FEW, (_SHARE_FINE if fine else _SHARE) * prod(verdict.tensor.shape))
    if verdict.tensor.quant is not None or not verdict.tensor.dtype.is_float:
        return few and verdict.worst <= 1
    if verdict.tensor.dtype is DType.FLOAT16:
        return few and verdict.off <= _HALF * largest
    return verdict.off <= _SINGLE * largest
