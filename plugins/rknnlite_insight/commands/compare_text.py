"""What ``rknnlite compare`` prints: distances per tensor where there are any, and what they come to."""

from __future__ import annotations

from collections.abc import Sequence

from rknnlite_backend.perf import UNKNOWN
from rknnlite_graph.coarse_multipliers import REMEDY, CoarseLayer, coarse_summary, worst_of

from rknnlite.spi.command import Column, Line, Part, Table, Tone

from .. import Comparison, Distance, Group, Kind, Verdict

__all__ = ["coarse_lines", "compare_parts"]

_TONES = {"good": Tone.GOOD, "doubtful": Tone.WARN, "bad": Tone.BAD}
_NAMES = 6


def compare_parts(
    found: Comparison,
    verdict: Verdict,
    manual: bool = False,
    hint: str = "",
    there: Verdict | None = None,
    coarse: Sequence[str] = (),
) -> list[Part]:
    """What was compared and the verdict, ``there``: that on the board; ``manual``: with the manual's table. ``hint`` says how to
    learn more, ``coarse`` what channels lose in the file (``coarse_lines``)."""
    shown = verdict.kind is not Kind.IDENTICAL or bool(found.floating) or found.board is not None
    parts: list[Part] = [str(found)] if manual and shown else _beside(found, shown)
    parts += _judged("on the simulator: " if found.board else "", verdict)
    parts += _judged("on the board: ", there) if there else []
    parts += [Line(line, Tone.WARN, 2) for line in coarse]
    return [*parts, *([Line(hint, Tone.QUIET, 2)] if hint else [])]


def coarse_lines(layers: Sequence[CoarseLayer]) -> list[str]:
    """That channels lose their scale in the file, in which layers most, and what to do; nothing where none does by a step."""
    worst = worst_of(layers)
    return [coarse_summary(layers), *map(str, worst), f"-> {REMEDY}"] if worst else []


def _judged(where: str, verdict: Verdict) -> list[Part]:
    lines: list[Part] = [Line(f"{where}{verdict.headline}", _TONES[verdict.mood], 2)]
    return [*lines, *(Line(line, hang=2) for line in verdict.lines)]


def _beside(found: Comparison, shown: bool) -> list[Part]:
    """Both sides, the table unless all is identical, and what only one side has."""
    parts: list[Part] = [Line(f"model: {found.model}", hang=2), Line(f"reference: {found.reference}", hang=2)]
    parts += [Line(f"board: {found.board.title}", hang=2)] if found.board else []
    parts += [Line(f"network in float: {found.floating}", hang=2)] if found.floating else []
    if shown:
        parts += ["", *([Line("runtime_error", Tone.HEAD)] if found.runtime else []), _table(found), ""]
    parts.append(f"{len(found.tensors)} tensors compared")
    for what, names in (("model", found.unmatched), ("reference", found.missing)):
        if names:
            more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
            text = f"{len(names)} only in the {what}: {', '.join(names[:_NAMES])}{more}"
            parts.append(Line(text, Tone.QUIET, 2))
    below = found.board.lines(len(found.tensors)) if found.board else []
    return [*parts, *(Line(line, hang=2) for line in below)]


def _table(found: Comparison) -> Table:
    told = [
        (_head(found, group, head), group, cells) for group in found.groups() for head, cells in group.columns
    ]
    columns = [Column("tensor", least=16)]
    for number, (head, _, _) in enumerate(told):
        columns.append(Column(f"{head}: cosine", True, drop=0 if head.endswith("entire") else number))
        columns.append(Column("Euclidean", True, drop=len(told) + number))
    rows = [
        [tensor.label, *(text for _, group, cells in told for text in _cells(cells[row], group.blank))]
        for row, tensor in enumerate(found.tensors)
    ]
    return Table(columns, rows)


def _head(found: Comparison, group: Group, head: str) -> str:
    """``entire``; beside a board ``simulator entire`` and ``runtime entire``."""
    return f"{group.head.partition('_')[0]} {head}".strip() if found.board else head


def _cells(found: Distance | None, blank: str) -> tuple[str, str]:
    if found is None:
        return ("-" if blank == UNKNOWN else blank), "-"
    return "identical" if found.euclidean == 0 else f"{found.cosine:.5f}", f"{found.euclidean:.4g}"
