"""What is wrong with plugins: noted where it is found, shown by messages, ``rknnlite plugins`` and ``rknnlite doctor``.

A plugin that itself looks for things (libraries in a folder, say) notes here what it skips, and asks ``may_enter``
before it runs code of somebody else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Optional

from ..log import logger

__all__ = [
    "Problem",
    "forget_problems",
    "known_problems",
    "leave_out",
    "may_enter",
    "note",
    "note_twin",
    "watch",
    "why_left_out",
]


class Problem(NamedTuple):
    """What is wrong with a plugin, and what to do about it where more is known than that it should be mended."""

    plugin: str
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.text}; {self.remedy}" if self.remedy else self.text


_problems: dict[tuple[str, str], Problem] = {}  # by plugin and what it is about
_left_out: dict[tuple[str, str], str] = {}
_watcher: Optional[Callable[[str, str], None]] = None


def note(plugin: str, about: str, text: str, remedy: str = "") -> bool:
    """Keep what is wrong with a plugin, by the name of its entry point; an empty text: it is no longer so.

    Of each thing that it is about the last note counts. True when it is news.
    """
    key, problem = (plugin, about), Problem(plugin, text, remedy)
    if not text:
        _problems.pop(key, None)
        return False
    news = _problems.get(key) != problem
    _problems[key] = problem
    return news


def known_problems() -> list[Problem]:
    """All that was noted; ``rknnlite.plugins.problem_list`` looks for plugins first."""
    return list(_problems.values())


def forget_problems() -> None:
    """Before plugins are looked for anew."""
    _problems.clear()


def may_enter(plugin: str, step: str) -> bool:
    """Asked before code of a plugin is entered: its import, one of its hooks, a library that it loads."""
    reason = why_left_out(plugin, step)
    if reason:
        note(plugin, step, reason, "update or remove it")
    return not reason


def why_left_out(plugin: str, step: str) -> str:
    """What would come of entering that code; empty when nothing is known against it."""
    if _watcher is not None:
        _watcher(plugin, step)
    reason = _left_out.get((plugin, step))
    return f"{step} {reason}" if reason is not None else ""


def watch(watcher: Callable[[str, str], None]) -> None:
    """Call this with the name of a plugin and of the step whenever code of a plugin is entered."""
    global _watcher
    _watcher = watcher


def leave_out(steps: Mapping[tuple[str, str], str]) -> None:
    """Steps by which plugins ended a process that tried, with what happened: they are not entered here."""
    _left_out.clear()
    _left_out.update(steps)


def note_twin(name: str, value: str, first: str) -> None:
    """Two packages whose entry points have one name; the same package found twice is no problem."""
    if value != first:
        text = f"two packages have an entry point of this name, {first} and {value}; the second is skipped"
        if note(name, "twin", text, "remove one of them"):
            logger.warning("plugin %s: %s", name, text)
