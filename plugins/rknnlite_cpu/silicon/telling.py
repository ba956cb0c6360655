"""What ``fidelity="silicon"`` says of a model: where its rules were measured, what follows the simulator, what is assumed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rknnlite_graph.graph import Activation, Graph, Node, Tensor

from rknnlite.formats import IoTensor
from rknnlite.tensor import DType

from ..input_conversion import on_npu

__all__ = ["assumptions", "evidence", "lines", "pixel_lines"]

_PIXELS_KNOWN = ("RKNPU v2", "RKNPU t3", "RKNPU lite")
"""RK3588, where it was recorded, and RV1103, RV1106, RK3566 and RK3568, whose files hold the factors."""


def evidence(measured_on: str) -> str:
    """How far the arithmetic is known of an NPU family that was ``measured_on`` a chip, or on none."""
    if measured_on:
        return f"as measured on {measured_on}"
    return "by analogy: nobody has measured how this NPU family rounds (RK3588, RK3576 and RV1103 are known)"


def assumptions(graph: Graph) -> dict[str, list[str]]:
    """Roundings that nobody has measured, taken to be half to even as all others are -> nodes that have them."""
    found: dict[str, list[str]] = {}
    for node in graph.nodes:
        for fact in _assumed(graph, node):
            found.setdefault(fact, []).append(node.label())
    return found


def _assumed(graph: Graph, node: Node) -> Iterator[str]:
    stage, fused = node.stage, node.fused
    if stage is None or not stage.in_registers or stage.registers is None:
        return
    table = stage.lut is not None and (fused is None or fused.after in (None, Activation.TABLE))
    if table:
        yield "indices and lines of activation tables"
    if graph.tensors[node.outputs[0]].dtype is DType.INT16:
        yield "all shifts of 16-bit layers"
    if stage.registers.ew_shift and not table:
        yield "the shift of a second operand"
    if fused is not None and fused.join is not None and stage.registers.bn_shift and stage.second_scale != 1:
        yield "the shift of a second factor"


def lines(graph: Graph) -> tuple[list[str], list[str]]:
    """(what is to be warned of, what is good to know) of a ``silicon_graph``, in sentences."""
    warnings = [] if graph.measured_on else [f"its numbers are {evidence('')}"]
    reasons: dict[str, list[str]] = {}
    from .rules import left_to_simulator  # with the kernels

    for left in left_to_simulator(graph):
        reasons.setdefault(left.why, []).append(left.node)
    warnings += [f"{_nodes(nodes)} as the simulator computes: {why}" for why, nodes in reasons.items()]
    notes = [f"its numbers are {evidence(graph.measured_on)}"] if graph.measured_on else []
    notes += [
        f"{fact} are taken to round half to even, which nobody has measured: {_nodes(nodes)}"
        for fact, nodes in assumptions(graph).items()
    ]
    return warnings, notes


def pixel_lines(
    family: str, inputs: Sequence[IoTensor], stored: Sequence[Tensor], in_float: bool
) -> Iterator[str]:
    """Of which inputs ``inputs="board"`` says nothing, or says it by analogy, in sentences."""
    for io, tensor in zip(inputs, stored):
        if in_float or not on_npu(io, tensor):
            yield f"the NPU converts no pixels for input {io.name}; they are converted as the simulator does"
        elif family not in _PIXELS_KNOWN:
            yield f"input {io.name} by analogy: how this NPU family converts pixels was never recorded (RK3588 was)"


def _nodes(labels: Iterable[str]) -> str:
    return ", ".join(labels)
