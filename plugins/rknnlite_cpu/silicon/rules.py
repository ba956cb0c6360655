"""Which nodes are computed in the integers of their registers, and why the others are not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Optional

import numpy as np
from rknnlite_graph.graph import Activation, ConvParams, FusedOp, Graph, Node, Stage, Tensor
from rknnlite_graph.node_view import NodeView
from rknnlite_graph.output_registers import OutputRegisters

from rknnlite.errors import ModelUnsupported
from rknnlite.tensor import DType

from .moves import moves
from .operands import chip_kernel
from .trial import steps_apart

__all__ = ["Left", "left_to_simulator", "silicon_graph"]

_MARKERS = ("InputOperator", "OutputOperator")
_FLOAT = "the NPU computes it in floats, as the simulator does"


@dataclass(frozen=True)
class Left:
    """A node of the NPU that follows the simulator's rule, and why."""

    node: str
    why: str


def silicon_graph(graph: Graph) -> Graph:
    """The same network with the stages marked that are computed in registers; ``graph`` itself stays as it is.

    Raises:
        ModelUnsupported: a file without registers.
    """
    of_npu = [node for node in graph.nodes if node.on_npu and node.op not in _MARKERS]
    if not any(node.stage is not None and node.stage.read_registers is not None for node in of_npu):
        raise ModelUnsupported(
            "fidelity='silicon' computes in the registers of an NPU, and this file has none for it; open it with "
            "fidelity='simulator'"
        )
    return replace(graph, nodes=[_marked(graph, node) for node in graph.nodes])


def _marked(graph: Graph, node: Node) -> Node:
    if node.stage is None:
        return node
    if node.on_npu and node.stage.read_registers is not None:
        node = replace(node, stage=replace(node.stage, registers=node.stage.read_registers()))
    view = NodeView(graph, node)
    why = _against(view)
    if why is None and node.conv is None:
        registers, why = _tried(view)
        node = replace(node, stage=replace(node.stage, registers=registers))
    assert node.stage is not None
    return replace(node, stage=replace(node.stage, in_registers=why is None, why_not=why or ""))


def _tried(view: NodeView) -> tuple[Optional[OutputRegisters], Optional[str]]:
    """The registers of the task that computes a node without weights, and why there is none."""
    node = view.node
    assert node.stage is not None and node.stage.registers is not None
    first, nearest = node.stage.registers, 0
    for registers in dict.fromkeys((first, *(node.stage.read_tasks() if node.stage.read_tasks else ()))):
        tried = NodeView(view.graph, replace(node, stage=replace(node.stage, registers=registers)))
        kernel = chip_kernel(tried)
        if kernel is None:
            return first, f"how the NPU computes this {node.op} is not known by its registers"
        steps = steps_apart(tried, kernel)
        if not steps:
            return registers, None
        nearest = min(nearest or steps, steps)
    return first, f"its registers give values that are {nearest} steps and more from what its tensors say"


def left_to_simulator(graph: Graph) -> list[Left]:
    """Nodes of the NPU that a ``silicon_graph`` does not compute in registers although they round something."""
    return [
        Left(node.label(), node.stage.why_not) for node in graph.nodes if node.stage and node.stage.why_not
    ]


def _against(view: NodeView) -> Optional[str]:
    """Why a node is not computed in registers: None where it is, empty where nothing is rounded."""
    node = view.node
    if not node.on_npu or node.op in _MARKERS or _moves(view):
        return ""
    operands = [tensor for tensor in view.inputs[:1] if tensor is not None]
    if not _whole([*operands, *view.outputs]):
        return _FLOAT
    if node.stage is None or node.stage.registers is None:
        return "no registers were found for it"
    if node.conv is not None:
        return _against_convolution(view)
    return None


def _moves(view: NodeView) -> bool:
    """Whether values pass as they are."""
    sources = [
        tensor for tensor in view.inputs if tensor is not None and not tensor.dtype.name.startswith("INT64")
    ]
    if not moves(view) or not sources:
        return False
    first = view.outputs[0]
    kept = sources if view.node.op == "Concat" else sources[:1]
    return all(t.quant == first.quant and t.dtype is first.dtype for t in (*kept, *view.outputs))


def _whole(tensors: Sequence[Tensor]) -> bool:
    """Whether all are quantised."""
    return all(tensor.quant is not None and tensor.dtype in (DType.INT8, DType.INT16) for tensor in tensors)


def _against_convolution(view: NodeView) -> Optional[str]:
    node = view.node
    conv, stage, fused = node.conv, node.stage, node.fused
    assert conv is not None and stage is not None and stage.registers is not None
    if fused is None or not conv.quantised:
        return _FLOAT
    if view.tensor(0).dtype is not view.outputs[0].dtype:
        return "it changes the type of its values, and nobody has measured how"
    if stage.registers.truncation:
        return "its sums are shifted before the bias is added, and nobody has measured how that rounds"
    if fused.after is Activation.TABLE and stage.lut is None:
        return "no table was uploaded for it"
    if fused.applies(Activation.CLIP) and ((stage.limits[0] or 0) > 0 or stage.clip is not None):
        return "nobody has measured how the NPU takes limits like those of its Clip"
    if not _whole_slopes(fused, conv, stage):
        return "its slopes are no whole numbers in the file, and what the NPU makes of them is not known"
    if fused.join is not None and view.is_const(1):
        return "its second operand is stored, and in which form the NPU gets it is not known"
    return None


def _whole_slopes(fused: FusedOp, conv: ConvParams, stage: Stage) -> bool:
    """Whether slopes are what the registers, or whole numbers beside them, say."""
    assert stage.registers is not None
    fraction = 2.0 ** (stage.registers.bs_shift_negative - stage.registers.bs_shift)
    if fused.applies(Activation.LEAKY_RELU):
        return stage.slope == stage.registers.bn_multiplier / fraction
    if fused.applies(Activation.PRELU):
        whole = None if conv.slope is None else conv.slope.astype(np.float64) * fraction
        return whole is not None and bool((whole == np.rint(whole)).all())
    return True
