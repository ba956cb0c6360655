"""The face that programs written for rknn3-toolkit-lite know; their import name is ``rknn3lite.api``.

Nothing but translation: every method calls the core and turns its errors into one log line and -1 or None.
"""

from __future__ import annotations

from . import rknn3_types
from .rknn3_lite import RKNN3Lite
from .rknn3_log import rknn3Log
from .rknn3_session import RKNN3Session
from .rknn3_types import *  # noqa: F403

__all__ = ["RKNN3Lite", "RKNN3Session", "rknn3Log"]
__all__ += rknn3_types.__all__
