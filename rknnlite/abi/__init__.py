"""Facts of the vendor's C ABIs: as ctypes structures for plugins and faces, as headers for operators in C."""

from __future__ import annotations

from pathlib import Path

__all__ = ["include_dir"]


def include_dir() -> Path:
    """The folder with ``rknn_op.h`` and ``rknn3_op.h``, for ``-I``; ``rknnlite new-plugin --print-include`` prints it."""
    return Path(__file__).with_name("include")
