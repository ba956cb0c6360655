"""Tokens are pieces of bytes: hold them back until they end at the end of a character."""

from __future__ import annotations

import codecs
from collections.abc import Callable

__all__ = ["Utf8Gate"]


_MOST_HELD = 8


class Utf8Gate:
    """Lets tokens through in groups that are complete UTF-8.

    Bytes that can never become a character count as complete, and at most 8 tokens are held back, so that nothing
    waits for ever: a group is cut within a character only where 8 tokens in a row all end within one.
    """

    def __init__(self, token_bytes: Callable[[int], bytes] | None) -> None:
        """``token_bytes`` None: every token is let through at once."""
        self._bytes = token_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held: list[int] = []

    def push(self, token: int) -> tuple[int, ...]:
        """Take a token; all tokens that may go out now, none while a character is incomplete."""
        raw = self._bytes(token) if self._bytes is not None else b""
        before = self.flush() if self._breaks(raw) else ()
        self._held.append(token)
        self._decoder.decode(raw)
        if self._decoder.getstate()[0] and len(self._held) < _MOST_HELD:
            return before
        ready, self._held = tuple(self._held), []
        return before + ready

    def flush(self) -> tuple[int, ...]:
        """All tokens still held back."""
        tokens, self._held = tuple(self._held), []
        self._decoder.reset()
        return tokens

    def _breaks(self, raw: bytes) -> bool:
        """Whether these bytes do not go on with the character that is incomplete: it never will be complete."""
        begun = self._decoder.getstate()[0]
        if not begun or not raw:
            return False
        try:
            codecs.utf_8_decode(begun + raw[:1], "strict", False)
        except UnicodeDecodeError:
            return True
        return False
