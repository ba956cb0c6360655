"""An estimate for every layer as the table of layers that ``perf`` shows and the vendor's manual has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rknnlite_backend.perf import UNKNOWN, PerfRow, PerfTable, work_load_header

from .counts import NodeCount, count
from .cycles import WIDTHS, Widths, node_cycles
from .program import NpuNode, NpuProgram
from .submission import Submission

__all__ = ["layer_table"]

_NOTE = "an estimate from counts at 1 GHz, nothing was run: the least that multipliers and memory need"


def layer_table(plan: Submission, mask: int = 0) -> PerfTable:
    """Cycles of memory and of the multipliers for every node, on the cores of a mask; those of the CPU have none.

    Times are cycles at 1 GHz. The share of the multipliers that is in use counts all cores.
    """
    widths = WIDTHS[plan.program.family]
    counts = count(plan, mask)
    cpu = set(plan.cpu_nodes)
    rows = [
        _row(plan.program, node, plan.program.nodes[node.node], widths)
        for node in counts
        if node.tasks or plan.program.nodes[node.node] in cpu
    ]
    cores = counts[0].cores if counts else 1
    return PerfTable(rows, cores, note=_NOTE)


def _row(program: NpuProgram, count: NodeCount, node: NpuNode, widths: Widths) -> PerfRow:
    cycles = node_cycles(count, widths)
    kilobytes = (count.fetched + count.written) / 1024
    dtypes = [t.dtype for t in program.tensors_of((*node.inputs, *node.outputs)) if not t.constant]
    row = PerfRow(
        id=str(count.node),
        op=node.type,
        target="NPU" if count.tasks else "CPU",
        name=node.name,
        time_us=None,
        data_type=next((dtype.short for dtype in dtypes if dtype is not None), UNKNOWN),
        input_shape=_shapes(program, node.inputs),
        output_shape=_shapes(program, node.outputs),
    )
    columns = PerfTable([], count.cores).columns
    if not count.tasks:
        return replace(row, cells={column: row.cell(column) for column in columns})
    usage = 100 * count.macs / (cycles.total * widths.macs * count.cores) if cycles.total else 0.0
    told = {
        "DDRCycles": f"{cycles.memory:.0f}",
        "NPUCycles": f"{cycles.computing:.0f}",
        "MaxCycles": f"{cycles.total:.0f}",
        "Time(us)": f"{cycles.total / 1000:.1f}",
        "MacUsage(%)": f"{usage:.1f}",
        "TaskNumber": str(len(count.tasks)),
        "RW(KB)": f"{kilobytes:.2f}",
        work_load_header(count.cores): "/".join(f"{share:.0f}%" for share in _shares(count)),
    }
    cells = {column: told.get(column) or row.cell(column) for column in columns}
    return replace(row, time_us=cycles.total / 1000, rw_kb=kilobytes, cells=cells)


def _shares(count: NodeCount) -> Iterator[float]:
    """Per cent of the elements written, per core; as the file itself says how it divides the work."""
    written = [sum(task.written for task in count.tasks if task.core == core) for core in range(count.cores)]
    return (100 * mine / (sum(written) or 1) for mine in written)


def _shapes(program: NpuProgram, tensors: tuple[int, ...]) -> str:
    shapes = [tensor.shape for tensor in program.tensors_of(tensors) if not tensor.constant]
    return ",".join(f"({','.join(map(str, shape))})" for shape in shapes if shape) or UNKNOWN
