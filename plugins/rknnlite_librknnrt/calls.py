"""What handles the calls of one context, and what it replies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Optional

from .protocol import Request

__all__ = ["Handler", "Reply"]


class Reply:
    """What a call answers: bytes, numbers, descriptors."""

    __slots__ = ("args", "fds", "payload")

    def __init__(self, payload: bytes = b"", args: tuple[int, ...] = (), fds: tuple[int, ...] = ()) -> None:
        self.payload, self.args, self.fds = payload, args, fds


Handler = Callable[[Request], Optional[Reply]]
