"""Performance figures of a model: rows per layer with their times, and the memory that it needs on the NPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from rknnlite_backend.perf import CoreMemory, MemorySize, PerfRow, PerfTable
from rknnlite_graph.graph import MARKERS, Graph, Node, Tensor, TensorRole

from rknnlite.socs import Soc

from .plan import ExecutionPlan

__all__ = ["memory_size", "perf_table"]

_ALIGN = 64  # where the converter lets weights begin
_PLANNED = (TensorRole.INPUT, TensorRole.ACTIVATION, TensorRole.OUTPUT)


# -- time ----------------------------------------------------------------------------------------------------


def perf_table(
    graph: Graph, plan: ExecutionPlan, seconds: Mapping[int, float], soc: Soc, note: str = ""
) -> PerfTable:
    """One row per node, the inputs before and the outputs after them.

    Args:
        graph: the graph of the file, for types and sizes as the NPU has them.
        seconds: time per node of one run.
    """
    rows = [_edge("InputOperator", graph.tensors[index], is_input=True) for index in graph.inputs]
    layers = [node for node in graph.nodes if node.op not in MARKERS]
    rows += [_row(graph, node, seconds.get(node.index, 0.0), plan) for node in layers]
    rows += [_edge("OutputOperator", graph.tensors[index], is_input=False) for index in graph.outputs]
    numbered = [PerfRow(id=str(number), **row) for number, row in enumerate(rows, 1)]  # type: ignore[arg-type]
    return PerfTable(numbered, cores=soc.cores, timed_on="CPU", note=note)


def _edge(op: str, tensor: Tensor, is_input: bool) -> dict[str, object]:
    row: dict[str, object] = {
        "op": op,
        "target": "CPU",
        "name": f"{op}:{tensor.name}",
        "time_us": None,
        "data_type": tensor.dtype.short,
        "rw_kb": _bytes(tensor) / 1024,
    }
    row["output_shape" if is_input else "input_shape"] = _shapes([tensor])
    return row


def _row(graph: Graph, node: Node, seconds: float, plan: ExecutionPlan) -> dict[str, object]:
    sources = [graph.tensors[index] for index in node.inputs if index >= 0]
    targets = [graph.tensors[index] for index in node.outputs]
    moved = sum(_bytes(tensor) for tensor in (*sources, *targets)) + _weight_bytes(node, sources)
    return {
        "op": node.op,
        "target": plan.target(node),
        "name": _full_name(node),
        "time_us": seconds * 1e6,
        "data_type": targets[0].dtype.short,
        "rw_kb": moved / 1024,
        "input_shape": _shapes([t for t in sources if t.role is not TensorRole.CONST]) or "\\",
        "output_shape": _shapes(targets),
    }


def _full_name(node: Node) -> str:
    """``Conv:name``, as most files name their nodes anyway."""
    return node.name if ":" in node.name else f"{node.op}:{node.name}"


def _shapes(tensors: Sequence[Tensor]) -> str:
    return ",".join(f"({','.join(str(dim) for dim in tensor.shape)})" for tensor in tensors)


def _bytes(tensor: Tensor) -> int:
    """Bytes as the NPU stores the tensor, padding included where the file says."""
    return max(tensor.nbytes, prod(tensor.shape) * tensor.dtype.bits // 8)


def _weight_bytes(node: Node, sources: Sequence[Tensor]) -> int:
    if node.conv is None or not sources:
        return 0
    return prod(node.conv.weight_shape) * sources[0].dtype.bits // 8


# -- memory --------------------------------------------------------------------------------------------------


def memory_size(graph: Graph, file_size: int, batch: int, soc: Soc) -> MemorySize:
    """What the model needs on the NPU: constants, internal tensors, inputs and outputs.

    Sizes are those that the file states per tensor; internal memory is the extent of the converter's plan, in
    which inputs and outputs have their places as well, or the most that is alive at once where the file has no plan.
    """
    weight = sum(
        -(-tensor.nbytes // _ALIGN) * _ALIGN
        for tensor in graph.tensors
        if tensor.role is TensorRole.CONST and tensor.nbytes > 0
    )
    edges = sum(_bytes(graph.tensors[index]) for index in (*graph.inputs, *graph.outputs))
    planned = (t.offset + t.nbytes for t in graph.tensors if t.role in _PLANNED and t.nbytes > 0)
    internal = max(_peak(graph), max(planned, default=0))
    size = MemorySize(weight, internal, weight + internal + edges * batch, model=file_size)
    if soc.generation == "rknpu3":  # a network runs on one core of a coprocessor
        return replace(size, cores=(CoreMemory(0, weight, internal),))
    return size


def _peak(graph: Graph) -> int:
    """Most bytes of internal tensors that are alive at once."""
    edges = {*graph.inputs, *graph.outputs}
    last: dict[int, int] = {}
    for number, node in enumerate(graph.nodes):
        last.update(dict.fromkeys((index for index in (*node.inputs, *node.outputs) if index >= 0), number))
    alive: dict[int, int] = {}
    total = peak = 0
    for number, node in enumerate(graph.nodes):
        for index in node.outputs:
            if index not in edges and index not in alive:
                alive[index] = _bytes(graph.tensors[index])
                total += alive[index]
        peak = max(peak, total)
        for index in (*node.inputs, *node.outputs):
            if index in alive and last[index] == number:
                total -= alive.pop(index)
    return peak
