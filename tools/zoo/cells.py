"""Cells of the page's tables."""

from __future__ import annotations

__all__ = ["percent", "row"]


def percent(share: float) -> str:
    """A share with at most two digits behind the point."""
    return f"{100 * share:.2f}".rstrip("0").rstrip(".") + " %"


def row(*cells: object) -> str:
    """One line of a table."""
    return f"| {' | '.join(str(cell).replace('|', '/') for cell in cells)} |"
