"""A bar on stderr while something takes long: how much is done, how fast, and how long it still takes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from ..errors import one_line
from .terminal import shortened, width_of

__all__ = ["Progress", "clear_bars", "duration"]

AFTER = 2.0  # seconds without a picture: what is done sooner needs none
_PAUSE = 0.1  # seconds between two pictures
_TICK = 0.5  # seconds after which the time is told anew, though nothing was done
_FEW = 20  # steps that are all drawn
_SURE = 1.0  # seconds after which a rate is told
_BAR = 30  # columns at most


class Progress:
    """A bar that comes after two seconds and goes at the end, drawn at most ten times a second; a step that takes long has
    its time counted. ``step`` and ``to`` may be called from any thread.

    Args:
        write: takes text for the terminal; None where there is none, and nothing is drawn.
        width: gives the columns of the terminal.
        label: what is done.
        total: steps of it; 0 where nobody knows.
        paint: draws bars with colours; None for plain ones.

    Examples:
        >>> with Progress(None, lambda: 80, "frames", 10) as progress:
        ...     progress.step(5)
    """

    def __init__(
        self,
        write: Callable[[str], None] | None,
        width: Callable[[], int],
        label: str,
        total: int,
        paint: Any = None,
    ) -> None:
        self._write, self._width, self._paint = write, width, paint
        self._label, self._total = label, total
        self._done = 0
        self._item = ""
        self._drawn = 0.0
        self._shown = False
        self._begun = self._started = time.monotonic()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True)

    def step(self, count: int = 1, item: str = "") -> None:
        """So much more is done; ``item`` names what is worked on now."""
        with self._lock:
            self._done += count
            self._item = item or self._item
            self._draw_at_times()

    def to(self, done: int, total: int, item: str = "") -> None:
        """So much of so much is done, and ``item`` is worked on now; a new total is a new beginning."""
        with self._lock:
            if total != self._total:
                self._started, self._drawn = time.monotonic(), 0.0
            self._done, self._total = done, total
            self._item = item or self._item
            if total <= _FEW:  # each may take long
                self._drawn = 0.0
            self._draw_at_times()

    def clear(self) -> None:
        """Take the bar off the screen; the next step draws it again."""
        with self._lock:
            if self._shown and self._write is not None:
                self._write("\r" + " " * (self._width() - 1) + "\r")
                self._shown, self._drawn = False, time.monotonic()  # the line in its place is written first

    def _tick(self) -> None:
        while not self._ended.wait(_TICK):
            with self._lock:
                self._draw_at_times()

    def _draw_at_times(self) -> None:
        now = time.monotonic()
        if self._write is not None and now - self._begun >= AFTER and now - self._drawn >= _PAUSE:
            self._drawn, self._shown = now, True
            self._write("\r" + self._picture(self._width() - 1, now - self._started))

    def _picture(self, width: int, elapsed: float) -> str:
        """One line of exactly ``width`` columns (and what paints it)."""
        facts = self._facts(elapsed)
        label = shortened(one_line(self._label), max(4, width // 3))
        if not self._total:
            text = f"{label} {facts}"
            return f"{text}  {shortened(one_line(self._item), max(0, width - width_of(text) - 2))}"[
                :width
            ].ljust(width)
        room = min(_BAR, width - width_of(label) - len(facts) - 4)
        if room < 5:
            return f"{label} {facts}"[:width].ljust(width)
        used = width_of(label) + room + len(facts) + 4
        rest = width - used - 2
        item = f"  {shortened(one_line(self._item), rest)}" if self._item and rest >= 8 else ""
        done = min(self._done, self._total)
        if self._paint is not None:
            bar = self._paint.bar(done, self._total, room + 2)
        else:
            bar = f"[{'#' * (room * done // self._total):<{room}}]"
        return f"{label} {bar} {facts}{item}" + " " * (width - used - width_of(item))

    def _facts(self, elapsed: float) -> str:
        """Share, rate and time left; the last two once there is something to go by."""
        if self._total:
            parts = [f"{100 * min(1.0, self._done / self._total):3.0f}%"]
        else:
            parts = [f"{self._done}" if self._done else duration(elapsed)]
        if elapsed >= _SURE and self._done:
            rate = self._done / elapsed
            parts.append(f"{rate:.0f}/s" if rate >= 10 else f"{rate:.1f}/s")
            if self._total > self._done:
                parts.append(f"{duration((self._total - self._done) / rate)} left")
        return " ".join(parts)

    def __enter__(self) -> Progress:
        _on_screen.append(self)
        if self._write is not None:
            self._ticker.start()
        return self

    def __exit__(self, *exc: object) -> None:
        _on_screen.remove(self)
        if self._write is not None:
            self._ended.set()
            self._ticker.join()
        self.clear()


_on_screen: list[Progress] = []


def clear_bars() -> None:
    """Make way for a line; bars are drawn again with their next step."""
    for bar in _on_screen:
        bar.clear()


def duration(seconds: float) -> str:
    """``0:07``, ``12:34``, ``1:02:03``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
