"""Patterns with reports of wrong results on boards whose simulator says fine: one table that grows.

A row is a report, no proof: models with the pattern may well be right. Each names its source and a way around.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from rknnlite.errors import ModelInvalid
from rknnlite.formats import Model
from rknnlite.spi.finding import Finding, Level
from rknnlite.tensor import DType

from .graph import Graph, Node, Tensor
from .operators import operator_of
from .read import told_graph

__all__ = ["PATTERNS", "Pattern", "Suspicion", "silicon", "suspicions"]

_REGISTER = 8191  # 13 bits
_STRIDE = 7  # 3 bits
_SHOWN = 3
_EXACT, _ATOM = 1e-3, 16
_OURS = "docs/npu.md, seen in the command words; no public report is known"
_HEARD = "docs/troubleshooting.md; heard from users, no public report is known"
_ISSUES = "https://github.com/airockchip/rknn-toolkit2/issues"


@dataclass(frozen=True)
class Suspicion:
    """Nodes of a model that fit one row of the table."""

    pattern: str
    nodes: tuple[str, ...]
    report: str
    source: str
    remedy: str
    level: Level


@dataclass(frozen=True)
class Pattern:
    """One row: the SoCs with reports (empty: all), what a node must look like, where it is told, what helps."""

    name: str
    socs: tuple[str, ...]
    fits: Callable[[Graph, Node], bool]
    report: str
    source: str
    remedy: str
    level: Level = Level.WARN


def suspicions(model: Model) -> list[Suspicion]:
    """The rows that fit the nodes of a model's default shape. Raises ModelInvalid."""
    graph = told_graph(model)
    made_for = {name.lower() for name in (*model.platforms, model.platform)}
    found = []
    for row in PATTERNS:
        if row.socs and not made_for.intersection(row.socs):
            continue
        nodes = tuple(node.label() for node in graph.nodes if not _marks(node) and row.fits(graph, node))
        if nodes:
            found.append(Suspicion(row.name, nodes, row.report, row.source, row.remedy, row.level))
    return found


def silicon(model: Model) -> Iterator[Finding]:
    """The same as findings of ``doctor``; nothing for a graph that cannot be read, which is told elsewhere."""
    try:
        found = suspicions(model)
    except ModelInvalid:
        return
    for one in found:
        more = f" and {len(one.nodes) - _SHOWN} more" if len(one.nodes) > _SHOWN else ""
        text = f"{one.report}: {', '.join(one.nodes[:_SHOWN])}{more} (see {one.source})"
        yield Finding("silicon", one.level, text, one.remedy)


def _marks(node: Node) -> bool:
    return node.op in ("InputOperator", "OutputOperator")


def _tensors(graph: Graph, indices: Iterable[int]) -> list[Tensor]:
    return [graph.tensors[i] for i in indices if i >= 0]


def _float(graph: Graph, node: Node) -> bool:
    return node.on_npu and any(tensor.dtype is DType.FLOAT16 for tensor in _tensors(graph, node.outputs))


def _flat_convolution_after_mean(graph: Graph, node: Node) -> bool:
    """A convolution on a picture of height 1, with a mean somewhere before it."""
    inputs = _tensors(graph, node.inputs[:1])
    if node.conv is None or not _float(graph, node) or not inputs or inputs[0].shape[2:3] != (1,):
        return False
    makers = {index: other for other in graph.nodes for index in other.outputs}
    index: int | None = inputs[0].index
    for _ in graph.nodes:
        maker = makers.get(index) if index is not None else None
        if maker is None or maker.op in ("ReduceMean", "GlobalAveragePool"):
            return maker is not None
        index = maker.inputs[0] if maker.inputs else None
    return False


def _broadcast_sum(graph: Graph, node: Node) -> bool:
    fused = node.op in ("AddRelu", "SubRelu") and _float(graph, node)
    return fused and len({tensor.shape for tensor in _tensors(graph, node.inputs)}) > 1


def _too_large(graph: Graph, node: Node) -> bool:
    tensors = _tensors(graph, (*node.inputs, *node.outputs))
    return node.on_npu and any(n > _REGISTER for t in tensors if len(t.shape) == 4 for n in t.shape[2:])


def _long_stride(graph: Graph, node: Node) -> bool:
    return (
        node.on_npu
        and node.conv is not None
        and not node.conv.transposed
        and max(node.conv.strides) > _STRIDE
    )


def _linear_resize_inside(graph: Graph, node: Node) -> bool:
    linear = node.op == "Resize" and node.attrs.get("mode") == "linear"
    return linear and not set(node.outputs) & set(graph.outputs)


def _elu_of_another_alpha(graph: Graph, node: Node) -> bool:
    elu = node.op == "Elu" or (node.fused is not None and node.fused.function == "Elu")
    row = operator_of("Elu") if elu and node.on_npu else None
    return row is not None and bool(abs(row.values(node.attrs, node.stage, None)["alpha"] - 1) > _EXACT)


def _rows_of_no_whole_atoms(graph: Graph, node: Node) -> bool:
    """An LSTM of the NPU whose steps are vectors of no multiple of 16 bytes."""
    inputs = _tensors(graph, node.inputs[:1])
    if node.op not in ("exLSTM", "LSTM") or not node.on_npu or not inputs or not inputs[0].shape:
        return False
    return bool(inputs[0].shape[-1] * inputs[0].dtype.numpy.itemsize % _ATOM)


PATTERNS = (
    Pattern(
        "flat-convolution-after-mean", ("rk3588", "rk3588s"), _flat_convolution_after_mean,
        "float16 convolutions of height 1 after a mean have given constants or zeros on RK3588",
        _HEARD, "turn height and width around, or end the model before the mean and compute the rest on the CPU",
    ),
    Pattern(
        "broadcast-add-relu", ("rk3588", "rk3588s"), _broadcast_sum,
        "a float16 sum with ReLU of operands of different shapes has gone wrong on RK3588",
        _HEARD, "expand the smaller operand to the full shape before conversion, or convert in int8",
    ),
    Pattern(
        "register-limit", (), _too_large,
        f"height or width over {_REGISTER}, more than the registers of the NPU hold",
        f"{_ISSUES}/419", "cut the axis into parts, or reshape so that no height or width is over the limit",
    ),
    Pattern(
        "kernel-limit", (), lambda graph, node: bool(node.overflow),
        "kernels larger than their registers hold: the commands are for another kernel; the simulator does not show it",
        "docs/rknn-format.md, section 7; no public report is known",
        "give the layer a smaller kernel, or the same without dilation: the converter splits it",
    ),
    Pattern(
        "stride-limit", (), _long_stride,
        f"convolutions with a stride over {_STRIDE}, more than the register holds, differ from the simulator",
        f"{_ISSUES}/315", "split the stride into two layers, or replace the layer by Reshape and a 1x1 convolution",
    ),
    Pattern(
        "linear-resize-inside", ("rv1126b",), _linear_resize_inside,
        "a linear Resize that feeds another node is computed wrong on RV1126B",
        f"{_ISSUES}/579", "use nearest, or a transposed convolution with fixed weights",
    ),
    Pattern(
        "lstm-on-rk3576", ("rk3576",), lambda graph, node: node.op in ("exLSTM", "LSTM") and node.on_npu,
        "LSTM on RK3576 has given other results than the simulator",
        f"{_ISSUES}/427", "compare a board's dump: rknnlite compare DUMP MODEL INPUT; else unroll the LSTM or keep it on the CPU",
    ),
    Pattern(
        "attention-on-rk3576", ("rk3576",), lambda graph, node: node.op == "exSDPAttention" and _float(graph, node),
        "float16 attention as one node has given zeros or constants on RK3576, without an error",
        f"{_ISSUES}/574", "put an operator between product and Softmax before conversion, or end the model before it",
    ),
    Pattern(
        "elu-table", ("rk3588", "rk3588s"), _elu_of_another_alpha,
        "the table of an Elu with an alpha other than 1 is of another function on RK3588; the simulator does not show it",
        _OURS, "use alpha 1, or another activation",
    ),
    Pattern(
        "lstm-first-states", ("rk3588", "rk3588s", "rv1103", "rv1106"), _rows_of_no_whole_atoms,
        "an LSTM whose steps have no multiple of 16 bytes reads its first states where its input lies: first steps are wrong",
        _OURS, "pad the vectors of its input: to a multiple of 16 in int8, of 8 in float16",
    ),
    Pattern(
        "on-the-cpu", (), lambda graph, node: not node.on_npu,
        "operators that the runtime computes on the CPU, and slowly",
        "docs/cli.md", "replace them by operators of the NPU, or end the model before them", Level.INFO,
    ),
)  # fmt: skip
"""One row per report."""
