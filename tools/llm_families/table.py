"""The table of families in a document."""

from __future__ import annotations

from pathlib import Path

from compare import Result

__all__ = ["write_table"]

_BEGIN, _END = "<!-- families: begin -->", "<!-- families: end -->"


def write_table(results: list[Result], path: Path) -> None:
    """Write the rows between the marks of a document anew."""
    text = path.read_text()
    before, rest = text.split(_BEGIN)
    after = rest.split(_END)[1]
    path.write_text(f"{before}{_BEGIN}\n{_rows(results)}{_END}{after}")


def _rows(results: list[Result]) -> str:
    lines = [
        "| model | `model_type` | logits, at most | 128 tokens | second turn | with a loaded KV cache |",
        "|---|---|---:|---|---|---|",
    ]
    for result in results:
        if max(result.embedding, result.score) >= 0:
            what, error = (
                ("embedding", result.embedding) if result.embedding >= 0 else ("score", result.score)
            )
            cells = [f"{error:.0e} ({what})", "", "", ""]
        else:
            counts = zip((result.greedy, result.again, result.loaded), result.of or (0, 0, 0))
            cells = [
                f"{max(result.logits, result.chunked):.0e}",
                *("same" if n == of else f"{n} of {of}" for n, of in counts),
            ]
        lines.append("| " + " | ".join([result.models, f"`{result.family}`", *cells]) + " |")
    return "\n".join(lines) + "\n"
