"""What a chat template may use up: time, steps, text, and the size of any one value.

A template comes with the model, so it is as trustworthy as the file. Every loop turn, call, filter and piece of text
is counted here (``jinja_sandbox`` sees to that), and nothing is computed whose result would be larger than all the text that
may be written; so a single operation never takes long, and between operations time and ``stop`` are looked at.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rknnlite import config
from rknnlite.errors import ParamInvalid

__all__ = ["Budget", "RenderStopped", "TemplateLimits", "whole_setting"]

_OVERHEAD = 16
"""What a value counts besides its characters, so that a list of nothing is something."""
_LARGEST_SETTING = 1 << 31


class RenderStopped(Exception):
    """Somebody wants the rendering to end; no error."""


@dataclass(frozen=True)
class TemplateLimits:
    """Limits of one rendering: seconds, characters of text (and of any value), loop turns and calls."""

    seconds: float = 2.0
    size: int = 4 << 20
    steps: int = 1_000_000

    @classmethod
    def configured(cls) -> TemplateLimits:
        """As the settings ``template_ms`` and ``template_kib`` say; raises ParamInvalid."""
        limits = cls()
        milliseconds = whole_setting("template_ms", round(limits.seconds * 1000))
        return cls(milliseconds / 1000, whole_setting("template_kib", limits.size >> 10) << 10, limits.steps)


def whole_setting(name: str, default: int) -> int:
    """A setting that is a whole number from 1; raises ParamInvalid."""
    text = config.get(name)
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 12 and 0 < int(text) < _LARGEST_SETTING):
        raise ParamInvalid(
            f"the setting {name} ({config.KEYS[name].variable}) is {text[:40]!r}, must be a whole number from 1"
        )
    return int(text)


class Budget:
    """Counts what one rendering uses. ``stopping`` is asked at every step."""

    def __init__(self, limits: TemplateLimits, stopping: Callable[[], bool]) -> None:
        self.limits = limits
        self.steps = self.written = 0
        self._stopping = stopping
        self._end = time.monotonic() + limits.seconds

    def step(self) -> None:
        """One more turn or call; raises RenderStopped or ParamInvalid."""
        self.steps += 1
        if self._stopping():
            raise RenderStopped
        if self.steps > self.limits.steps:
            raise _exceeded(f"it took more than {self.limits.steps} steps")
        if time.monotonic() > self._end:
            raise _exceeded(f"it ran longer than {self.limits.seconds:g} s (setting template_ms)")

    def write(self, size: int) -> None:
        """So many more characters of text."""
        self.step()
        self.written += size
        if self.written > self.limits.size:
            raise self._too_much("it wrote")

    def room(self, size: int) -> None:
        """Refuse to make a value of so many characters."""
        if size > self.limits.size:
            raise self._too_much("it made a value of")

    def value(self, value: Any) -> Any:
        """The value, which with all that it holds, written out, is no larger than allowed."""
        self.room(self.weight(value))
        return value

    def weight(self, value: Any) -> int:
        """Characters of a value, shared parts as often as they would be written; looks no further than the limit."""
        total, waiting = 0, [value]
        while waiting and total <= self.limits.size:
            item = waiting.pop()
            total += _OVERHEAD
            if isinstance(item, (str, bytes)):
                total += len(item)
            elif isinstance(item, int):
                total += item.bit_length()
            elif isinstance(item, range):
                total += _OVERHEAD * len(item)
            elif isinstance(item, (list, tuple, set, frozenset, Mapping)):
                total += _OVERHEAD * len(item)
                if total <= self.limits.size:
                    waiting.extend(_parts(item))
        return total

    def counted(self, values: Iterable[Any]) -> Iterator[Any]:
        """The same values, each of them a step."""
        for value in values:
            self.step()
            yield self.value(value)

    def _too_much(self, what: str) -> ParamInvalid:
        return _exceeded(f"{what} more than {self.limits.size >> 10} KiB (setting template_kib)")


def _parts(container: Any) -> Iterable[Any]:
    if isinstance(container, Mapping):
        return [*container.keys(), *container.values()]
    return container  # type: ignore[no-any-return]


def _exceeded(what: str) -> ParamInvalid:
    return ParamInvalid(
        f"{what}, where a chat template needs milliseconds and kilobytes; give the session one of your own with "
        "set_chat_template"
    )
