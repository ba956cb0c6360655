"""The logger under the vendor's name for it; see ``rknnlite._faces.log``."""

from __future__ import annotations

from .._faces.log import FaceLog

__all__ = ["rknn3Log"]


class rknn3Log(FaceLog):
    """Lines ``<L> <text>`` on stderr and, where wanted, in a file."""
