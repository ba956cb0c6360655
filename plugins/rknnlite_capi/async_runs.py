"""Runs as C functions begin and await them, and the numbers of their frames."""

from __future__ import annotations

from rknnlite.errors import ParamInvalid
from rknnlite.spi import Context

__all__ = ["AsyncRuns"]


class AsyncRuns:
    """The frames of one context; ``last`` is the number of the last one that began, -1 before."""

    def __init__(self, opened: Context) -> None:
        self._opened = opened
        self.last = -1

    def run(self) -> None:
        """``rknn_run`` without an extend."""
        self._opened.run()
        self.last += 1

    def begin(self, timeout_ms: int, block: bool) -> int:
        """``rknn_run`` with one; the number of the frame, which has ended where ``block`` says so."""
        self.last = self._opened.start(timeout_ms)
        if block:
            self._opened.wait(self.last, timeout_ms)
        return self.last

    def wait(self, frame: int | None = None, timeout_ms: int = 0) -> None:
        """``rknn_wait`` for a frame; None: the last one. Raises ParamInvalid where none has begun."""
        frame = self.last if frame is None else frame
        if frame < 0:
            raise ParamInvalid(
                "there is no frame to wait for: call rknn_run with non_block in its extend first"
            )
        self._opened.wait(frame, timeout_ms)

    @property
    def fetched(self) -> int:
        """The frame whose outputs were fetched last."""
        number = self._opened.frame_id
        return max(self.last, 0) if number is None else number
