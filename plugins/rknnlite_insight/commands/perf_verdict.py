"""Where the time of a run goes, in words: the terminal and the page of ``rknnlite perf`` both show these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from rknnlite_backend.perf import UNKNOWN, PerfRow, PerfTable

__all__ = ["COSTLIEST", "FRAME", "called", "layers_of", "on_the_reference", "time_text", "verdict"]

COSTLIEST = 3
FRAME = ("InputOperator", "OutputOperator")
"""Types of rows that are no layers."""


def verdict(table: PerfTable, backend: str, board: str = "") -> tuple[str, list[str]]:
    """A headline, and the sentences below it: where the time goes, and whose time it is. ``board``: it was measured there."""
    where = "the CPU reference" if on_the_reference(table, backend) else f"the backend {backend}"
    if board:
        where = f"{where} of {board}" if on_the_reference(table, backend) else board
    if not table.total_us:
        return f"No time is known on {where}", ["The backend says for no layer how long it takes."]
    lines = []
    if on_the_reference(table, backend):
        lines.append(
            f"These are times of {'that' if board else 'this'} machine's CPU, not of the NPU: they tell nothing about a board. "
            "Placement, shapes, traffic and memory are the board's."
        )
    costly = sorted(table, key=lambda row: -(row.time_us or 0.0))[:COSTLIEST]
    lines.append(f"Costliest layers: {_shares(((called(r), r.time_us or 0.0) for r in costly), table)}.")
    ranks = table.ranking[:COSTLIEST]
    lines.append(f"Costliest operator types: {_shares(((r.op, r.total_us) for r in ranks), table)}.")
    lines += _placement(table)
    return f"{time_text(table.total_us)} per run on {where}", lines


def layers_of(table: PerfTable) -> list[PerfRow]:
    """The rows that are layers."""
    return [row for row in table if row.op not in FRAME]


def on_the_reference(table: PerfTable, backend: str) -> bool:
    """Whether the times are those of a CPU that plays the NPU."""
    return backend == "cpu" or table.timed_on == "CPU"


def _placement(table: PerfTable) -> list[str]:
    """Where the file puts the layers."""
    rows = layers_of(table)
    counts = Counter(row.target for row in rows)
    if not rows or UNKNOWN in counts:
        return []
    texts = " and ".join(f"{count} on the {target}" for target, count in counts.most_common())
    others = [called(row) for row in rows if row.target.upper() != "NPU"]
    named = f", which are {_some(others)}" if len(others) > 1 else f", {others[0]}" if others else ""
    return [f"Of {len(rows)} layers a board runs {texts}{named if len(others) < len(rows) else ''}."]


def called(row: PerfRow) -> str:
    """The name of a row, or else its type."""
    return row.name or row.op


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - COSTLIEST} more" if len(names) > COSTLIEST else ""
    return ", ".join(names[:COSTLIEST]) + more


def _shares(pairs: Iterable[tuple[str, float]], table: PerfTable) -> str:
    found = [(name, us) for name, us in pairs if us]
    texts = [f"{name} {time_text(us)} ({100 * us / table.total_us:.0f} %)" for name, us in found]
    together = 100 * sum(us for _, us in found) / table.total_us
    return ", ".join(texts) + (f"; together {together:.0f} %" if len(found) > 1 else "")


def time_text(us: float) -> str:
    """Microseconds in a unit that fits."""
    return f"{us:.0f} us" if us < 1000 else f"{us / 1000:.3g} ms" if us < 1e6 else f"{us / 1e6:.3g} s"
