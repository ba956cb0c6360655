"""The face that programs written for rknn-toolkit-lite2 know: ``from rknnlite.api import RKNNLite``.

Nothing but translation: every method calls the core and turns its errors into one log line and -1 or None.
"""

from __future__ import annotations

from . import _refuse_vendor_files  # noqa: F401  (first: what follows may be the vendor's)
from .rknn_lite import RKNNLite

__all__ = ["RKNNLite"]
