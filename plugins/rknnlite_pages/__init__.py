"""Reports as pages of HTML that need nothing else (extra ``html``); ``rich_terminal``: terminals in colours (extra ``rich``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .rich_terminal import Painter

__all__ = ["painter"]


def painter(columns: int) -> Painter:
    """What paints text on a terminal of so many columns; raises ImportError without the extra ``rich``."""
    from .rich_terminal import Painter

    return Painter(columns)
