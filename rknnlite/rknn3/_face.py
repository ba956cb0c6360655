"""What both halves of the face share: its state, and errors as one log line and -1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._code_name import code_name
from .rknn3_log import rknn3Log
from .rknn3_runtime import RKNN3Runtime
from .rknn3_session import RKNN3Session

__all__ = ["Face"]


class Face:
    """An object with a logger and perhaps an open runtime."""

    rknn_log: rknn3Log
    rknn_runtime: RKNN3Runtime | None
    llm: RKNN3Session | None

    def _try(self, headline: str, action: Callable[[], Any]) -> int:
        """0, or -1 with the error in the log."""
        try:
            with self.rknn_log.listening():
                action()
        except Exception as error:
            self._tell(headline, error)
            return -1
        return 0

    def _tell(self, headline: str, error: BaseException) -> None:
        self.rknn_log.tell(headline, error, code_name(error))
