"""The logger under the name that programs import; see ``rknnlite.facelog``."""

from __future__ import annotations

from ..facelog import FaceLog as RKNNLog

__all__ = ["RKNNLog"]
