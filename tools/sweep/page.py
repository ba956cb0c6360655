"""A page of the documentation that several commands write: each has a section between two comments."""

from __future__ import annotations

from pathlib import Path

__all__ = ["put"]


def put(page: Path, section: str, text: str) -> None:
    """Replace the section, or append it; everything else on the page stays."""
    begin, end = f"<!-- {section}: begin -->\n", f"<!-- {section}: end -->\n"
    old = page.read_text(encoding="utf-8") if page.exists() else ""
    before, found, rest = old.partition(begin)
    after = rest.partition(end)[2] if found else ""
    gap = "" if found or not before else "\n"
    page.write_text(f"{before}{gap}{begin}\n{text.strip()}\n\n{end}{after}", encoding="utf-8")
