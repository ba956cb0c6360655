"""What ``rknnlite perf`` prints: the columns that carry something here, sums, memory, and where the time goes."""

from __future__ import annotations

from collections.abc import Iterator

from rknnlite_backend.perf import UNKNOWN, MemorySize, OpRank, PerfTable, size_text

from rknnlite.spi.command import Column, Line, Part, Table, Tone

from .perf_verdict import verdict

__all__ = ["estimate_parts", "perf_parts"]

_TEXTS = {"OpType", "DataType", "Target", "InputShape", "OutputShape", "FullName"}
_STAY = {"OpType", "Time(us)"}
_LEAVE = (
    "FullName",
    "OutputShape",
    "Target",
    "ID",
    "RW(KB)",
    "MacUsage(%)",
    "DataType",
    "InputShape",
    "NPUCycles",
    "MaxCycles",
    "DDRCycles",
    "WorkLoad",
    "TaskNumber",
)
"""Columns that a narrow terminal does without, the last one first."""


def perf_parts(table: PerfTable, memory: MemorySize | None, backend: str, where: str = "") -> list[Part]:
    """The layers, the operators, the sums, and what the run on ``backend``, of the board ``where``, comes to."""
    parts: list[Part] = [_title("layers", table.note), _layers(table), ""]
    parts += [Line("operators", Tone.HEAD), _operators(table), ""]
    headline, lines = verdict(table, backend, where)
    tone = Tone.HEAD if table.total_us else Tone.WARN
    return [*parts, *_sums(table, memory), Line(headline, tone, 2), *(Line(line, hang=2) for line in lines)]


def estimate_parts(table: PerfTable) -> list[Part]:
    """The layers, the operators and the sums of an estimate."""
    parts: list[Part] = [_title("layers", table.note), _layers(table), ""]
    return [*parts, Line("operators", Tone.HEAD), _operators(table), "", *_sums(table, None)]


def _title(text: str, note: str) -> Line:
    return Line(f"{text}: {note}" if note else text, Tone.HEAD)


def _layers(table: PerfTable) -> Table:
    rows = [[row.cell(column) for column in table.columns] for row in table]
    return Table([_column(head) for head in table.columns], rows, UNKNOWN)


def _column(head: str) -> Column:
    """A column of the runtime's own headers or of the manual's."""
    name = head.partition("(0")[0]
    drop = 0 if name in _STAY else _LEAVE.index(name) + 1 if name in _LEAVE else len(_LEAVE)
    least = {"FullName": 20, "OpType": 14}.get(name, 0)
    return Column(head, name not in _TEXTS and name != "WorkLoad", least, drop)


def _operators(table: PerfTable) -> Table:
    """Operator types, the most expensive first; times per processor where more than one has any."""
    ranks = table.ranking
    spent = {name: sum(getattr(rank, f"{name}_us") for rank in ranks) for name in ("cpu", "gpu", "npu")}
    shown = [name for name, total in spent.items() if total]
    shown = shown if len(shown) > 1 else []
    columns = [Column("OpType", least=8), Column("calls", True, drop=1)]
    columns += [Column(f"{name.upper()} us", True, drop=2) for name in shown]
    columns += [Column("us", True), Column("share", True)]

    def cells(name: str, calls: int, times: list[float], share: str) -> list[str]:
        return [name, str(calls), *(f"{time:.0f}" for time in times), share]

    def times(rank: OpRank) -> list[float]:
        return [*(getattr(rank, f"{name}_us") for name in shown), rank.total_us]

    rows = [cells(rank.op, rank.calls, times(rank), f"{rank.ratio:.1f} %") for rank in ranks]
    total = [*(spent[name] for name in shown), sum(rank.total_us for rank in ranks)]
    return Table(columns, [*rows, cells("all", len(table), total, "")], last=1)


def _sums(table: PerfTable, memory: MemorySize | None) -> Iterator[Line]:
    if table.total_kb is not None:
        yield Line(f"read and written: {size_text(1024 * table.total_kb)}", hang=2)
    if memory is not None:
        parts = {
            "weights": memory.weight,
            "internal tensors": memory.internal,
            "other": memory.other,
            "model file": memory.model,
            "SRAM": memory.sram_total,
            "SRAM free": memory.sram_free,
        }
        told = ", ".join(f"{name} {size_text(size)}" for name, size in parts.items() if size)
        yield Line(f"memory on the NPU: {size_text(memory.total)} ({told})", hang=2)
