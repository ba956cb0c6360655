"""The page of ``rknnlite perf --html``: where the time of a run goes."""

from __future__ import annotations

from rknnlite_backend.perf import UNKNOWN, MemorySize, PerfRow, PerfTable, size_text
from rknnlite_pages.chart import Chart, Series
from rknnlite_pages.report import Bar, HtmlReport

from .perf_verdict import COSTLIEST, FRAME, called, layers_of, on_the_reference, time_text, verdict

__all__ = ["page"]


def page(
    table: PerfTable, memory: MemorySize | None, model: str, backend: str, soc: str, where: str = ""
) -> HtmlReport:
    """The report of one run on ``backend``; ``soc`` is the one that was played or driven, ``where`` a board from afar."""
    headline, lines = verdict(table, backend, where)
    report = HtmlReport(
        f"Time per layer of {model}",
        [*([("measured on", where)] if where else []), *_facts(table, memory, backend, soc)],
        headline,
        lines,
        "doubtful" if on_the_reference(table, backend) else "plain",
    )
    _add_types(report, table)
    _add_layers(report, table)
    return report


def _facts(table: PerfTable, memory: MemorySize | None, backend: str, soc: str) -> list[tuple[str, str]]:
    facts = [("backend", backend), ("SoC", soc), ("layers", str(len(layers_of(table))))]
    facts += [("time of all layers", time_text(table.total_us))] if table.total_us else []
    facts += [("read and written", size_text(1024 * table.total_kb))] if table.total_kb is not None else []
    if memory:
        facts.append(("memory on the NPU", size_text(memory.total)))
        facts.append(("of it weights", size_text(memory.weight)))
        facts.append(("of it internal tensors", size_text(memory.internal)))
    return [*facts, ("note", table.note)] if table.note else facts


def _add_types(report: HtmlReport, table: PerfTable) -> None:
    report.table(
        "Time per operator type",
        ("operator type", "layers", "time (us)", "share of the time (%)"),
        [
            (r.op, r.calls, round(r.total_us), Bar(f"{r.ratio:.1f}", r.ratio / 100, r.ratio))
            for r in table.ranking
            if r.op not in FRAME
        ],
    )


def _add_layers(report: HtmlReport, table: PerfTable) -> None:
    labels = [called(row) for row in table]
    costly = sorted(range(len(table)), key=lambda i: -(table[i].time_us or 0.0))[:COSTLIEST]
    report.chart(
        Chart(
            "Time per layer",
            "us",
            labels,
            [Series("time", [row.time_us for row in table])],
            marked=costly,
            marked_name="the three costliest layers",
        )
    )
    most = max((row.time_us or 0.0 for row in table), default=0.0) or 1.0
    report.table(
        "Layers in order of execution",
        (
            "layer",
            "operator type",
            "time (us)",
            "name",
            "runs on (board)",
            "element type",
            "traffic (KB)",
            "input shape",
            "output shape",
        ),
        [_row(number, row, most) for number, row in enumerate(table, 1)],
    )


def _row(number: int, row: PerfRow, most: float) -> tuple[int | str | float | Bar | None, ...]:
    time = None if row.time_us is None else Bar(f"{row.time_us:.0f}", row.time_us / most, row.time_us)
    traffic = None if row.rw_kb is None else round(row.rw_kb, 1)
    shapes = [_known(row.input_shape), _known(row.output_shape)]
    return (number, row.op, time, row.name, _known(row.target), _known(row.data_type), traffic, *shapes)


def _known(text: str) -> str:
    return "" if text == UNKNOWN else text
