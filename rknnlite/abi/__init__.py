"""Facts of the vendor's C ABIs: as ctypes structures for plugins and faces, as headers for operators in C."""

from __future__ import annotations

from pathlib import Path

__all__ = ["PLUGIN_DIRECTORIES", "PLUGIN_PREFIX", "include_dir"]

PLUGIN_PREFIX = "librkcst_"
"""How files of compiled operators begin."""
PLUGIN_DIRECTORIES = ("/usr/lib/rknpu/op_plugins", "/usr/lib/rknnpu/op_plugins")
"""Where the vendor's server looks for plugins; the manual spells it both ways (RKNN user guide, 5.5)."""


def include_dir() -> Path:
    """The folder with ``rknn_op.h`` and ``rknn3_op.h``, for ``-I``; ``rknnlite new-plugin --print-include`` prints it."""
    return Path(__file__).with_name("include")
