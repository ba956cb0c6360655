"""What ``rknnlite compare`` prints: distances per tensor where there are any, and what they come to."""

from __future__ import annotations

from ..accuracy import Comparison, Distance, Kind, Verdict
from ..spi.command import Column, Line, Part, Table, Tone

__all__ = ["compare_parts"]

_TONES = {"good": Tone.GOOD, "doubtful": Tone.WARN, "bad": Tone.BAD}
_NAMES = 6


def compare_parts(found: Comparison, verdict: Verdict, manual: bool = False, hint: str = "") -> list[Part]:
    """What was compared and the verdict; ``manual``: with the manual's table. ``hint`` says how to learn more."""
    shown = verdict.kind is not Kind.IDENTICAL or bool(found.floating)
    parts: list[Part] = [str(found)] if manual and shown else _beside(found, shown)
    parts.append(Line(verdict.headline, _TONES[verdict.mood], 2))
    parts += [Line(line, hang=2) for line in verdict.lines]
    return [*parts, *([Line(hint, Tone.QUIET, 2)] if hint else [])]


def _beside(found: Comparison, shown: bool) -> list[Part]:
    """Both sides, the table unless all is identical, and what only one side has."""
    parts: list[Part] = [Line(f"model: {found.model}", hang=2), Line(f"reference: {found.reference}", hang=2)]
    parts += [Line(f"network in float: {found.floating}", hang=2)] if found.floating else []
    if shown:
        parts += ["", *([Line("runtime_error", Tone.HEAD)] if found.runtime else []), _table(found), ""]
    parts.append(f"{len(found.tensors)} tensors compared")
    for what, names in (("model", found.unmatched), ("reference", found.missing)):
        if names:
            more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
            text = f"{len(names)} only in the {what}: {', '.join(names[:_NAMES])}{more}"
            parts.append(Line(text, Tone.QUIET, 2))
    return parts


def _table(found: Comparison) -> Table:
    groups = found.columns()
    columns = [Column("tensor", least=16)]
    for number, (head, _) in enumerate(groups):
        columns.append(Column(f"{head}: cosine", True, drop=number))
        columns.append(Column("Euclidean", True, drop=len(groups) + number))
    rows = [
        [tensor.label, *(cell for _, cells in groups for cell in _cells(cells[row]))]
        for row, tensor in enumerate(found.tensors)
    ]
    return Table(columns, rows)


def _cells(found: Distance | None) -> tuple[str, str]:
    if found is None:
        return "-", "-"
    return "identical" if found.euclidean == 0 else f"{found.cosine:.5f}", f"{found.euclidean:.4g}"
