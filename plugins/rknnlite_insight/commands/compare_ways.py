"""What ``rknnlite compare --ways`` prints: one row per tensor, one column per way."""

from __future__ import annotations

from typing import Any, Optional

from rknnlite.spi.command import Column, Line, Part, Table, Tone

from ..ways import Parted, Ways

__all__ = ["ways_data", "ways_parts"]

_COLUMNS = {
    "floating": "float: differ",
    "alone": "silicon alone: differ",
    "silicon": "silicon: differ",
    "machine": "machine: differ",
}
_TOLD = {
    "floating": "from the network in float",
    "alone": "of each layer alone, on the simulator's values, from a chip",
    "silicon": "from a chip that got the same input (uint8 pixels converted as on a board)",
    "machine": "between fidelity='silicon' and the machine that executes the command words",
}
_FEW = 0.001


def ways_parts(found: Ways) -> list[Part]:
    """The table, then a line for each way: how many values part from the simulator's, and by how many steps at most."""
    shown = [way for way in _COLUMNS if any(getattr(row, way) is not None for row in found.rows)]
    columns = [Column("tensor", least=16), Column("operator"), Column("elements", True)]
    for way in shown:
        columns += [Column(_COLUMNS[way], True), Column("most", True)]
    rows = [
        [
            row.name,
            row.op,
            str(row.size),
            *(text for way in shown for text in _cells(getattr(row, way), row.size)),
        ]
        for row in found.rows
    ]
    parts: list[Part] = [Line(f"model: {found.model}", hang=2), "", Table(columns, rows), ""]
    for way in shown:
        size, count, most = found.totals(way)
        outputs, parted, farthest = found.totals(way, "output")
        parts.append(
            Line(
                f"{_TOLD[way]}: {count} of {size} values differ ({_percent(count, size)}), at most {most:.3g} steps; "
                f"of the outputs {parted} of {outputs}, at most {farthest:.3g}",
                hang=2,
            )
        )
    absent = {why: way for way, why in found.absent.items()}  # a reason once
    return [*parts, *(Line(f"{way}: {why}", Tone.QUIET, 2) for why, way in absent.items())]


def _cells(parted: Optional[Parted], size: int) -> tuple[str, str]:
    if parted is None:
        return "", ""
    return _percent(parted.count, size), f"{parted.most:.3g}"


def _percent(count: int, size: int) -> str:
    share = 100 * count / max(1, size)
    return f"{share:.3f} %" if share >= _FEW or not count else f"< {_FEW} %"


def ways_data(found: Ways) -> dict[str, Any]:
    """For programs."""
    return {
        "model": found.model,
        "tensors": [
            {
                "name": row.name,
                "op": row.op,
                "role": row.role,
                "elements": row.size,
                **{way: _parted(getattr(row, way)) for way in _COLUMNS},
            }
            for row in found.rows
        ],
        "absent": found.absent,
    }


def _parted(parted: Optional[Parted]) -> Optional[dict[str, Any]]:
    return None if parted is None else {"differ": parted.count, "most": parted.most}
