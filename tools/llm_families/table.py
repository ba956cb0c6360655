"""The table of families in a document."""

from __future__ import annotations

from pathlib import Path

from compare import Result
from page import put

__all__ = ["write_table"]


def write_table(results: list[Result], path: Path, gguf: bool = False) -> None:
    """Write the rows between the marks of a document anew; ``gguf``: those of GGUF files."""
    mark, kind = ("gguf", "`general.architecture`") if gguf else ("families", "`model_type`")
    put(path, mark, _rows(results, kind))


def _rows(results: list[Result], kind: str) -> str:
    lines = [
        f"| model | {kind} | logits, at most | 128 tokens | second turn | with a loaded KV cache |",
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
