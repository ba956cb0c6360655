"""Figures per node: counts of what it gives the NPU to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Optional

from rknnlite_backend.perf import PerfRow, PerfTable
from rknnlite_graph.graph import Graph, Tensor, TensorRole

from rknnlite.socs import Soc

from .command_words import TAIL
from .cores import tasks_of_cores
from .program import NpuProgram

__all__ = ["perf_table"]

_NOTE = "counts, not times: the command words were executed by rknnlite's machine"
_TIMED = (
    "one more frame, its nodes handed over one by one and waited for: a whole run is faster than their sum"
)


def perf_table(
    program: NpuProgram, graph: Graph, mask: int, soc: Soc, times: Optional[Mapping[int, float]] = None
) -> PerfTable:
    """One row per node of the graph; column ``TaskNumber`` counts tasks, ``Words`` their command words, on all cores of a mask.

    Args:
        times: microseconds per node that was waited for; None: nobody knows them.
    """
    tasks: dict[int, list[int]] = {}
    for core in tasks_of_cores(program, mask):
        for index in core:
            tasks.setdefault(program.tasks[index].node, []).append(program.tasks[index].amount + TAIL)
    rows = []
    for number, node in enumerate(graph.nodes, 1):
        words = tasks.get(node.index, [])
        sources = [graph.tensors[i] for i in node.inputs if i >= 0]
        targets = [graph.tensors[i] for i in node.outputs]
        cells = {
            "ID": str(number),
            "OpType": node.op,
            "DataType": (targets or sources)[0].dtype.short if targets or sources else "",
            "Target": "NPU" if node.on_npu else "CPU",
            "InputShape": _shapes([t for t in sources if t.role is not TensorRole.CONST]),
            "OutputShape": _shapes(targets),
            **({} if times is None else {"Time(us)": f"{times.get(node.index, 0.0):.0f}"}),
            "TaskNumber": str(len(words)),
            "Words": str(sum(words)),
            "FullName": node.name if ":" in node.name else f"{node.op}:{node.name}",
        }
        rows.append(
            PerfRow(
                id=cells["ID"],
                op=node.op,
                target=cells["Target"],
                name=cells["FullName"],
                time_us=None if times is None else times.get(node.index, 0.0),
                cells=cells,
                data_type=cells["DataType"],
                input_shape=cells["InputShape"],
                output_shape=cells["OutputShape"],
            )
        )
    return PerfTable(rows, cores=soc.cores, note=_NOTE if times is None else _TIMED)


def _shapes(tensors: Sequence[Tensor]) -> str:
    return ",".join(f"({','.join(str(dim) for dim in tensor.shape)})" for tensor in tensors)
