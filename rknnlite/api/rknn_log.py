"""The logger under the name that programs import; see ``rknnlite._faces.log``."""

from __future__ import annotations

from .._faces.log import FaceLog as RKNNLog

__all__ = ["RKNNLog"]
