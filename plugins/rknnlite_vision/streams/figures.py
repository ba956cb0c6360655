"""What a pipeline tells about itself: pictures, drops, and how long each stage took."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["STAGES", "Figures", "Report", "StageTimes"]

STAGES = ("source", "waiting", "model", "decode", "turn", "sink", "total")
"""``waiting`` for a worker, ``turn``: until the pictures before are done, ``total`` from the end of reading to that of the sink."""
_KEPT = 4096  # pictures whose times are remembered


@dataclass(frozen=True)
class StageTimes:
    """Seconds that a stage took, over the last few thousand pictures.

    Examples:
        >>> StageTimes("decode", 0.002, 0.003, 0.004).p95
        0.003
    """

    stage: str
    p50: float
    p95: float
    most: float


@dataclass(frozen=True)
class Report:
    """What a pipeline did; ``str`` of it is a table.

    Attributes:
        pictures: that reached the sink.
        dropped: frames of a live source that came while the queue was full.
        seconds: from the first picture that was read to the last that was done.
        stages: times of each of ``STAGES``.

    Examples:
        >>> Report(60, 0, 2.0, ()).rate
        30.0
    """

    pictures: int
    dropped: int
    seconds: float
    stages: tuple[StageTimes, ...]

    @property
    def rate(self) -> float:
        """Pictures per second."""
        return self.pictures / self.seconds if self.seconds else 0.0

    def __str__(self) -> str:
        lines = [
            f"{self.pictures} pictures in {self.seconds:.1f} s, {self.rate:.1f} per second; {self.dropped} dropped",
            f"{'ms':8}{'p50':>9}{'p95':>9}{'most':>9}",
        ]
        for times in self.stages:
            cells = "".join(f"{1000 * value:9.1f}" for value in (times.p50, times.p95, times.most))
            lines.append(f"{times.stage:8}{cells}")
        return "\n".join(lines)


class Figures:
    """Counts for one pipeline, from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._times: dict[str, deque[float]] = {stage: deque(maxlen=_KEPT) for stage in STAGES}
        self._first = self._last = 0.0
        self.read = self.pictures = self.dropped = 0

    def took(self, asked: float) -> int:
        """The source gave a picture, asked for at that moment; its number, from 1."""
        with self._lock:
            if not self.read:
                self._first = self._last = asked
            self.read += 1
            self._times["source"].append(time.perf_counter() - asked)
            return self.read

    def lost(self) -> None:
        """A picture was dropped."""
        with self._lock:
            self.dropped += 1

    def finished(self, moments: Sequence[float]) -> None:
        """A picture is done: when it was read, begun, run, decoded, at its turn, and through the sink."""
        with self._lock:
            for stage, start, end in zip(STAGES[1:], moments, moments[1:]):
                self._times[stage].append(end - start)
            self._times["total"].append(moments[-1] - moments[0])
            self._last = moments[-1]
            self.pictures += 1

    def report(self) -> Report:
        """Figures so far."""
        with self._lock:
            stages = tuple(_times(stage, list(seconds)) for stage, seconds in self._times.items() if seconds)
            return Report(self.pictures, self.dropped, self._last - self._first, stages)


def _times(stage: str, seconds: list[float]) -> StageTimes:
    p50, p95, most = np.quantile(seconds, (0.5, 0.95, 1.0), method="nearest").tolist()
    return StageTimes(stage, p50, p95, most)
