"""Text that comes in pieces, read as if it were there: readers are generators that yield when they need more."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Generator
from typing import TypeVar

from .answer_parts import NoCall

__all__ = ["IncrementalText", "Reading", "first_of"]

_T = TypeVar("_T")
Reading = Generator[None, None, _T]
"""A reader: yields when more text is needed, returns what it read."""

_SPACE = " \t\r\n"
_NAME = re.compile(r"[A-Za-z0-9_.\-]{1,128}")


@functools.lru_cache(maxsize=64)
def first_of(markers: tuple[str, ...]) -> re.Pattern[str]:
    """Finds a character that a marker begins with."""
    letters = sorted({re.escape(marker[0]) for marker in markers})
    return re.compile(f"[{''.join(letters)}]" if letters else "(?!)")


class IncrementalText:
    """``data`` from ``at`` on has not been read. What is decided never depends on how the text was cut."""

    def __init__(self) -> None:
        self.data, self.at, self.ended = "", 0, False

    def peek(self) -> Reading[str]:
        """The next character, empty at the end."""
        while self.at >= len(self.data):
            if self.ended:
                return ""
            yield
        return self.data[self.at]

    def found(self, *markers: str) -> Reading[str]:
        """The longest of the markers that comes next, empty when none does; nothing is taken."""
        longest = max(map(len, markers), default=0)
        while True:
            rest = self.data[self.at : self.at + longest]
            if self.ended or not any(len(m) > len(rest) and m.startswith(rest) for m in markers):
                return max((m for m in markers if m and rest.startswith(m)), key=len, default="")
            yield

    def took(self, *markers: str) -> Reading[str]:
        """``found``, and take it."""
        marker = yield from self.found(*markers)
        self.at += len(marker)
        return marker

    def expect(self, *markers: str) -> Reading[str]:
        """Take one of the markers; raises NoCall."""
        marker = yield from self.took(*markers)
        if not marker:
            raise NoCall
        return marker

    def blank(self) -> Reading[None]:
        """Take blanks."""
        while True:
            char = yield from self.peek()
            if not char or char not in _SPACE:
                return
            self.at += 1

    def before(self, *markers: str) -> Reading[str]:
        """Take the text before the next marker, not the marker itself. Raises NoCall when none comes."""
        start = self.at
        yield from self.each_before(lambda _: None, *markers)
        if self.ended and self.at >= len(self.data):
            raise NoCall
        return self.data[start : self.at]

    def each_before(self, take: Callable[[str], None], *markers: str) -> Reading[str]:
        """Hand over the text before the next marker as it comes; the marker, which is not taken, empty at the end."""
        firsts = first_of(markers)
        while True:
            hit = firsts.search(self.data, self.at)
            stop = hit.start() if hit else len(self.data)
            if stop > self.at:
                take(self.data[self.at : stop])
                self.at = stop
            elif hit:
                marker = yield from self.found(*markers)
                if marker:
                    return marker
                take(self.data[self.at])
                self.at += 1
            elif self.ended:
                return ""
            else:
                yield

    def name(self) -> Reading[str]:
        """Take the name of a function; raises NoCall."""
        start = self.at
        while True:
            char = yield from self.peek()
            if not char or not _NAME.fullmatch(char) or self.at - start > 128:
                break
            self.at += 1
        found = self.data[start : self.at]
        if not _NAME.fullmatch(found):
            raise NoCall
        return found
