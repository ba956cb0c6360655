"""Texts at which an answer ends, also when they come in pieces."""

from __future__ import annotations

from collections.abc import Sequence

from rknnlite.errors import ParamInvalid

__all__ = ["StopStrings"]


class StopStrings:
    """Lets text through up to the first stop string; what may be the beginning of one waits."""

    def __init__(self, strings: Sequence[str] = ()) -> None:
        """Raises ParamInvalid for an empty string, at which everything would end."""
        if any(not isinstance(string, str) or not string for string in strings):
            raise ParamInvalid(
                f"stop strings are {list(strings)!r}; each must be text of one character or more"
            )
        self._strings = tuple(strings)
        self._held = ""
        self.found: str | None = None

    def push(self, text: str) -> str:
        """The text that may be shown now; nothing more after ``found`` has been set."""
        if self.found is not None:
            return ""
        held = self._held + text
        places = [(held.index(string), string) for string in self._strings if string in held]
        if places:
            place, self.found = min(places, key=lambda found: found[0])
            self._held = ""
            return held[:place]
        keep = max((_overlap(held, string) for string in self._strings), default=0)
        self._held = held[len(held) - keep :]
        return held[: len(held) - keep]

    def flush(self) -> str:
        """What waited, at the end of the answer."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, string: str) -> int:
    """Characters at the end of the text that the string begins with."""
    longest = min(len(text), len(string) - 1)
    return next((size for size in range(longest, 0, -1) if text.endswith(string[:size])), 0)
