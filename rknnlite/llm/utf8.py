"""Tokens are pieces of bytes: hold them back until they end at the end of a character."""

from __future__ import annotations

import codecs
from collections.abc import Callable

__all__ = ["Utf8Gate"]


class Utf8Gate:
    """Lets tokens through in groups that are complete UTF-8.

    Bytes that can never become a character count as complete, so that nothing waits for ever.
    """

    def __init__(self, token_bytes: Callable[[int], bytes] | None) -> None:
        """``token_bytes`` None: every token is let through at once."""
        self._bytes = token_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held: list[int] = []

    def push(self, token: int) -> tuple[int, ...]:
        """Take a token; all tokens that may go out now, none while a character is incomplete."""
        self._held.append(token)
        if self._bytes is not None:
            self._decoder.decode(self._bytes(token))
            if self._decoder.getstate()[0]:
                return ()
        return self.flush()

    def flush(self) -> tuple[int, ...]:
        """All tokens still held back."""
        tokens, self._held = tuple(self._held), []
        self._decoder.reset()
        return tokens
