"""The table of models with encoders in a document."""

from __future__ import annotations

from pathlib import Path

from compare import Result
from page import put

__all__ = ["write_table"]


def write_table(results: list[Result], path: Path) -> None:
    """Write the rows between the marks of a document anew."""
    put(path, "media", _rows(results))


def _rows(results: list[Result]) -> str:
    lines = [
        "| model | logits, at most | encoder as float16 `.rknn`, of its largest value | logits behind it, at most |",
        "|---|---:|---:|---:|",
    ]
    for result in results:
        worst = max(max(turn.logits, turn.pieces) for turn in result.turns)
        encoder = ["" if value is None else f"{value:.0e}" for value in (result.encoder, result.encoded)]
        lines.append("| " + " | ".join([result.models, f"{worst:.0e}", *encoder]) + " |")
    return "\n".join(lines) + "\n"
