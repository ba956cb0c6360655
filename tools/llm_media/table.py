"""The table of models with encoders in a document."""

from __future__ import annotations

from pathlib import Path

from compare import Result

__all__ = ["write_table"]

_BEGIN, _END = "<!-- media: begin -->", "<!-- media: end -->"


def write_table(results: list[Result], path: Path) -> None:
    """Write the rows between the marks of a document anew."""
    text = path.read_text()
    before, rest = text.split(_BEGIN)
    path.write_text(f"{before}{_BEGIN}\n{_rows(results)}{_END}{rest.split(_END)[1]}")


def _rows(results: list[Result]) -> str:
    lines = [
        "| model | compared | logits, at most | encoder as float16 `.rknn`, of its largest value | logits behind it, at most |",
        "|---|---|---:|---:|---:|",
    ]
    for result in results:
        names = "; ".join(dict.fromkeys(turn.name for turn in result.turns if turn.name != "first turn"))
        worst = max(max(turn.logits, turn.pieces) for turn in result.turns)
        encoder = ["" if value is None else f"{value:.0e}" for value in (result.encoder, result.encoded)]
        lines.append("| " + " | ".join([result.models, names, f"{worst:.0e}", *encoder]) + " |")
    return "\n".join(lines) + "\n"
