"""The results as a table of docs/llm-families.md."""

from __future__ import annotations

from pathlib import Path

from compare import Result
from data_file import DataTable, write

__all__ = ["COLUMNS", "FILTERS", "write_table"]

COLUMNS = ("model", "type", "from", "logits, at most", "128 tokens", "second turn", "with a loaded KV cache")
FILTERS = ("type", "from")


def write_table(results: list[Result], path: Path, gguf: bool = False) -> None:
    """Write the data of the table; ``gguf``: of packages of GGUF files."""
    source = "GGUF" if gguf else "folder"
    rows = [[result.models, result.family, source, *_cells(result)] for result in results]
    write(path, "Families of tools/llm_families.", DataTable(COLUMNS, FILTERS, rows))


def _cells(result: Result) -> list[str]:
    if result.embedding >= 0:
        return [f"{result.embedding:.0e} (embedding)", "", "", ""]
    if result.score >= 0:
        return [f"{result.score:.0e} (score)", "", "", ""]
    counts = zip((result.greedy, result.again, result.loaded), result.of or (0, 0, 0))
    tokens = ("same" if n == of else f"{n} of {of}" for n, of in counts)
    return [f"{max(result.logits, result.chunked):.0e}", *tokens]
