"""The page of ``rknnlite perf --html``: where the time of a run goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ..spi.perf import UNKNOWN, MemorySize, PerfRow, PerfTable
from .html_chart import Chart, Series
from .html_report import Bar, HtmlReport

__all__ = ["page", "verdict"]

_COSTLIEST = 3
_FRAME = ("InputOperator", "OutputOperator")  # rows of a table that are no layers


def page(table: PerfTable, memory: MemorySize | None, model: str, backend: str, soc: str) -> HtmlReport:
    """The report of one run on ``backend``; ``soc`` is the one that was played or driven."""
    headline, lines = verdict(table, backend)
    report = HtmlReport(
        f"Time per layer of {model}",
        _facts(table, memory, backend, soc),
        headline,
        lines,
        "doubtful" if _on_the_reference(table, backend) else "plain",
    )
    _add_types(report, table)
    _add_layers(report, table)
    return report


def verdict(table: PerfTable, backend: str) -> tuple[str, list[str]]:
    """A headline, and the sentences below it: where the time goes, and whose time it is."""
    where = "the CPU reference" if _on_the_reference(table, backend) else f"the backend {backend}"
    if not table.total_us:
        return f"No time is known on {where}", ["The backend says for no layer how long it takes."]
    lines = []
    if _on_the_reference(table, backend):
        lines.append(
            "These are times of this machine's CPU, not of the NPU: they tell nothing about a board. Placement, shapes, "
            "traffic and memory are the board's."
        )
    costly = sorted(table, key=lambda row: -(row.time_us or 0.0))[:_COSTLIEST]
    lines.append(f"Costliest layers: {_shares(((_called(r), r.time_us or 0.0) for r in costly), table)}.")
    ranks = table.ranking[:_COSTLIEST]
    lines.append(f"Costliest operator types: {_shares(((r.op, r.total_us) for r in ranks), table)}.")
    lines += _placement(table)
    return f"{_time(table.total_us)} per run on {where}", lines


def _on_the_reference(table: PerfTable, backend: str) -> bool:
    return backend == "cpu" or table.timed_on == "CPU"


def _placement(table: PerfTable) -> list[str]:
    """Where the file puts the layers."""
    rows = [row for row in table if row.op not in _FRAME]
    counts = Counter(row.target for row in rows)
    if not rows or UNKNOWN in counts:
        return []
    texts = " and ".join(f"{count} on the {target}" for target, count in counts.most_common())
    others = [_called(row) for row in rows if row.target.upper() != "NPU"]
    named = f", which are {_some(others)}" if len(others) > 1 else f", {others[0]}" if others else ""
    return [f"Of {len(rows)} layers a board runs {texts}{named if len(others) < len(rows) else ''}."]


def _called(row: PerfRow) -> str:
    return row.name or row.op


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _COSTLIEST} more" if len(names) > _COSTLIEST else ""
    return ", ".join(names[:_COSTLIEST]) + more


def _shares(pairs: Iterable[tuple[str, float]], table: PerfTable) -> str:
    found = [(name, us) for name, us in pairs if us]
    texts = [f"{name} {_time(us)} ({100 * us / table.total_us:.0f} %)" for name, us in found]
    together = 100 * sum(us for _, us in found) / table.total_us
    return ", ".join(texts) + (f"; together {together:.0f} %" if len(found) > 1 else "")


def _facts(table: PerfTable, memory: MemorySize | None, backend: str, soc: str) -> list[tuple[str, str]]:
    facts = [("backend", backend), ("SoC", soc), ("layers", str(sum(r.op not in _FRAME for r in table)))]
    facts += [("time of all layers", _time(table.total_us))] if table.total_us else []
    facts += [("read and written", _size(1024 * table.total_kb))] if table.total_kb is not None else []
    if memory:
        facts.append(("memory on the NPU", _size(memory.total)))
        facts.append(("of it weights", _size(memory.weight)))
        facts.append(("of it internal tensors", _size(memory.internal)))
    return [*facts, ("note", table.note)] if table.note else facts


def _add_types(report: HtmlReport, table: PerfTable) -> None:
    report.table(
        "Time per operator type",
        ("operator type", "layers", "time (us)", "share of the time (%)"),
        [
            (r.op, r.calls, round(r.total_us), Bar(f"{r.ratio:.1f}", r.ratio / 100, r.ratio))
            for r in table.ranking
            if r.op not in _FRAME
        ],
    )


def _add_layers(report: HtmlReport, table: PerfTable) -> None:
    labels = [_called(row) for row in table]
    costly = sorted(range(len(table)), key=lambda i: -(table[i].time_us or 0.0))[:_COSTLIEST]
    report.chart(
        Chart(
            "Time per layer", "us", labels, [Series("time", [row.time_us for row in table])],
            marked=costly, marked_name="the three costliest layers",
        )
    )  # fmt: skip
    most = max((row.time_us or 0.0 for row in table), default=0.0) or 1.0
    report.table(
        "Layers in order of execution",
        (
            "layer", "operator type", "time (us)", "name", "runs on (board)", "element type", "traffic (KB)", "input shape",
            "output shape",
        ),
        [_row(number, row, most) for number, row in enumerate(table, 1)],
    )  # fmt: skip


def _row(number: int, row: PerfRow, most: float) -> tuple[int | str | float | Bar | None, ...]:
    time = None if row.time_us is None else Bar(f"{row.time_us:.0f}", row.time_us / most, row.time_us)
    traffic = None if row.rw_kb is None else round(row.rw_kb, 1)
    shapes = [_known(row.input_shape), _known(row.output_shape)]
    return (number, row.op, time, row.name, _known(row.target), _known(row.data_type), traffic, *shapes)


def _known(text: str) -> str:
    return "" if text == UNKNOWN else text


def _time(us: float) -> str:
    return f"{us:.0f} us" if us < 1000 else f"{us / 1000:.3g} ms" if us < 1e6 else f"{us / 1e6:.3g} s"


def _size(size: float) -> str:
    return f"{size / 2**20:.2f} MiB" if size >= 2**20 else f"{size / 2**10:.1f} KiB"
