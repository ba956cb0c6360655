"""Figures of a context: one row per layer, what they add up to, and memory; as data and as the manual's text.

Any backend fills the rows; the text is the same for all of them (columns: RKNN user guide, sections 3.2.3 and
3.2.4). A cell that nobody knows is ``\\``. Read tables by the names of their columns: runtimes differ in those.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Optional

__all__ = [
    "UNKNOWN",
    "CoreMemory",
    "MemorySize",
    "OpRank",
    "PerfRow",
    "PerfTable",
    "grid",
    "size_text",
    "work_load_header",
]

UNKNOWN = "\\"
_WORK_LOAD = "WorkLoad"
_COLUMNS = (
    "ID", "OpType", "DataType", "Target", "InputShape", "OutputShape", "DDRCycles", "NPUCycles", "MaxCycles",
    "Time(us)", "MacUsage(%)", _WORK_LOAD, "TaskNumber", "RW(KB)", "FullName",
)  # fmt: skip
_RANKING = (
    "OpType",
    "CallNumber",
    "CPUTime(us)",
    "GPUTime(us)",
    "NPUTime(us)",
    "TotalTime(us)",
    "TimeRatio(%)",
)
_PROCESSORS = ("CPU", "GPU", "NPU")


def work_load_header(cores: int) -> str:
    """The column of the load per core: ``WorkLoad(0/1/2)`` for three."""
    return f"{_WORK_LOAD}({'/'.join(str(core) for core in range(max(1, cores)))})"


@dataclass(frozen=True)
class PerfRow:
    """One layer. Shapes are text such as ``(1,64,56,56)``, several of them separated by commas.

    ``time_us`` and ``rw_kb`` are None where nobody knows them. ``cells`` holds every column under the runtime's
    own header where a runtime printed the row.

    Examples:
        >>> PerfRow("1", "Conv", "NPU", "conv1", time_us=35.0).cell("Time(us)")
        '35'
    """

    id: str
    op: str
    target: str
    name: str
    time_us: Optional[float]
    cells: Mapping[str, str] = field(default_factory=dict, repr=False)
    data_type: str = UNKNOWN
    input_shape: str = UNKNOWN
    output_shape: str = UNKNOWN
    mac_usage: str = UNKNOWN
    work_load: str = UNKNOWN
    rw_kb: Optional[float] = None

    def cell(self, header: str) -> str:
        """The text under a header; ``\\`` for what the row does not have."""
        if header in self.cells:
            return self.cells[header] or UNKNOWN
        known = {
            "ID": self.id,
            "OpType": self.op,
            "DataType": self.data_type,
            "Target": self.target,
            "InputShape": self.input_shape,
            "OutputShape": self.output_shape,
            "Time(us)": UNKNOWN if self.time_us is None else f"{self.time_us:.0f}",
            "MacUsage(%)": self.mac_usage,
            _WORK_LOAD: self.work_load,
            "RW(KB)": UNKNOWN if self.rw_kb is None else f"{self.rw_kb:.2f}",
            "FullName": self.name,
        }
        return known.get(header.partition("(0")[0], UNKNOWN) or UNKNOWN

    def __str__(self) -> str:
        return "  ".join(f"{header}={self.cell(header)}" for header in self.cells or _COLUMNS)


@dataclass(frozen=True)
class OpRank:
    """All layers of one operator type: how often it is called and where its time goes, in microseconds."""

    op: str
    calls: int
    cpu_us: float
    gpu_us: float
    npu_us: float
    ratio: float

    @property
    def total_us(self) -> float:
        """Time on all processors."""
        return self.cpu_us + self.gpu_us + self.npu_us


class PerfTable(list[PerfRow]):
    """The rows of one run, in order of execution; ``str()`` is the table as the manual shows it.

    Args:
        rows: one per layer.
        cores: NPU cores of the SoC, for the header of the load column.
        timed_on: the processor that was timed for all rows, where that is not each row's target.
        note: a line under the title.

    Examples:
        >>> with rknnlite.open("examples/resnet18/resnet18_for_RK3588.rknn", collect_perf=True) as context:
        ...     outputs = context.infer(np.zeros((1, 224, 224, 3), np.uint8))
        ...     table = context.perf_table()
        >>> table.total_us > 0
        True
    """

    def __init__(
        self, rows: Iterable[PerfRow] = (), cores: int = 1, timed_on: str | None = None, note: str = ""
    ) -> None:
        super().__init__(rows)
        self.cores = cores
        self.timed_on = timed_on
        self.note = note

    @property
    def total_us(self) -> float:
        """Time of all layers of one run, microseconds."""
        return sum(row.time_us or 0.0 for row in self)

    @property
    def total_kb(self) -> Optional[float]:
        """Kilobytes read and written by all layers; None where no row says."""
        known = [row.rw_kb for row in self if row.rw_kb is not None]
        return sum(known) if known else None

    @property
    def ranking(self) -> list[OpRank]:
        """Operator types, the most expensive first."""
        total = self.total_us
        groups: dict[str, list[PerfRow]] = {}
        for row in self:
            groups.setdefault(row.op, []).append(row)
        ranks = []
        for op, rows in groups.items():
            spent = dict.fromkeys(_PROCESSORS, 0.0)
            for row in rows:
                where = (self.timed_on or row.target).upper()
                spent[where if where in spent else "NPU"] += row.time_us or 0.0
            share = 100 * sum(spent.values()) / total if total else 0.0
            ranks.append(OpRank(op, len(rows), spent["CPU"], spent["GPU"], spent["NPU"], share))
        return sorted(ranks, key=lambda rank: (-rank.total_us, rank.op))

    @property
    def columns(self) -> list[str]:
        """Headers: the runtime's own, else the manual's."""
        if self and self[0].cells:
            return list(self[0].cells)
        load = work_load_header(self.cores)
        return [load if column == _WORK_LOAD else column for column in _COLUMNS]

    def __str__(self) -> str:
        columns = self.columns
        layers = grid(columns, [[row.cell(column) for column in columns] for row in self])
        width = max(len(line) for line in layers)
        rule = "-" * width
        total_kb = self.total_kb
        footer = [f"Total Operator Elapsed Per Frame Time(us): {self.total_us:.0f}"]
        if total_kb is not None:
            footer.append(f"Total Memory Read/Write Per Frame Size(KB): {total_kb:.2f}")
        lines = [rule, "Network Layer Information Table".center(width).rstrip()]
        lines += [self.note.center(width).rstrip()] if self.note else []
        lines += [rule, layers[0], rule, *layers[1:], rule, *footer]
        return "\n".join([*lines, rule, *self._ranking_text(width)])

    def _ranking_text(self, width: int) -> list[str]:
        ranks, rule = self.ranking, "-" * width
        times = [(rank.cpu_us, rank.gpu_us, rank.npu_us, rank.total_us) for rank in ranks]
        sums = [sum(column) for column in zip(*times)] or [0.0] * 4
        cells = [
            [rank.op, str(rank.calls), *_whole(spent), f"{rank.ratio:.2f}%"]
            for rank, spent in zip(ranks, times)
        ]
        lines = grid(_RANKING, [*cells, ["Total", str(len(self)), *_whole(sums), UNKNOWN]])
        title = "Operator Time Consuming Ranking Table".center(width).rstrip()
        return [title, rule, lines[0], rule, *lines[1:-1], rule, lines[-1], rule]


def _whole(numbers: Iterable[float]) -> list[str]:
    return [f"{number:.0f}" for number in numbers]


def grid(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as their widest cell, two blanks between them."""
    widths = [max(len(line[i]) for line in (headers, *rows)) for i in range(len(headers))]
    return ["  ".join(cell.ljust(w) for cell, w in zip(line, widths)).rstrip() for line in (headers, *rows)]


@dataclass(frozen=True)
class CoreMemory:
    """Bytes that a model needs on one core of a coprocessor (``rknn3_core_mem_size``).

    Examples:
        >>> CoreMemory(core_id=0, weight=1000, internal=200).weight
        1000
    """

    core_id: int
    weight: int
    internal: int


@dataclass(frozen=True)
class MemorySize:
    """Bytes of weights, of internal tensors, and of everything a context holds; SRAM where the SoC has it.

    ``model`` is the size of the model file, 0 where it is not known; ``cores`` are the cores of a coprocessor.
    ``str()`` is the manual's memory report.

    Examples:
        >>> MemorySize(weight=1000, internal=200, total=1500).other
        300
    """

    weight: int
    internal: int
    total: int
    sram_total: int = 0
    sram_free: int = 0
    model: int = 0
    cores: tuple[CoreMemory, ...] = ()

    @property
    def other(self) -> int:
        """Inputs, outputs and whatever else is neither weight nor internal tensor."""
        return max(0, self.total - self.weight - self.internal)

    def __str__(self) -> str:
        rule = "=" * 54
        parts = {
            "Weight Memory": self.weight,
            "Internal Tensor Memory": self.internal,
            "Other Memory": self.other,
            "Total Memory": self.total,
            "Model File Size": self.model,
        }
        if self.sram_total:
            parts.update({"SRAM": self.sram_total, "SRAM free": self.sram_free})
        if not self.model:
            del parts["Model File Size"]
        lines = [f"    {name}: {size_text(size)}" for name, size in parts.items()]
        return "\n".join([rule, "Memory Profile".center(54).rstrip(), rule, *lines, rule])


def size_text(size: float) -> str:
    """Bytes in MiB or KiB, as reports have them."""
    return f"{size / 2**20:.2f} MiB" if size >= 2**20 else f"{size / 1024:.2f} KiB"
