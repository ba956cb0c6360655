"""What a network has done so far: the protocol's statistics, and the same for Prometheus."""

from __future__ import annotations

import bisect
import time
from dataclasses import dataclass, field
from typing import Any

from rknnlite_protocol.metadata import VERSION
from rknnlite_protocol.requests import Timing

__all__ = ["BOUNDS", "Distribution", "Duration", "RunStatistics", "Statistics"]

BOUNDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
"""Upper ends of the classes of a distribution, in seconds; one more has all that is longer."""


@dataclass
class Duration:
    """How often something took place, and how many nanoseconds it took in all."""

    count: int = 0
    ns: int = 0

    def add(self, ns: int) -> None:
        """Once more."""
        self.count += 1
        self.ns += ns

    @property
    def fields(self) -> dict[str, int]:
        """The protocol's StatisticDuration."""
        return {"count": self.count, "ns": self.ns}


@dataclass
class Distribution:
    """How often times were of which length; ``counts`` has one class per bound and one for the rest."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        """Once more."""
        self.counts[bisect.bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds


@dataclass
class RunStatistics:
    """Runs, or requests, by their parts."""

    compute_input: Duration = field(default_factory=Duration)
    compute_infer: Duration = field(default_factory=Duration)
    compute_output: Duration = field(default_factory=Duration)

    def add(self, timing: Timing) -> None:
        """Once more."""
        self.compute_input.add(timing.ready - timing.begun)
        self.compute_infer.add(timing.ran - timing.ready)
        self.compute_output.add(timing.done - timing.ran)

    @property
    def fields(self) -> dict[str, dict[str, int]]:
        """By the protocol's names."""
        return {
            "compute_input": self.compute_input.fields,
            "compute_infer": self.compute_infer.fields,
            "compute_output": self.compute_output.fields,
        }


class Statistics:
    """Of one network since it was loaded; for one event loop.

    Durations of requests count a shared run for each that shared it, as the protocol has it; those of runs
    (``runs``, by the number of rows that were asked for) count it once.
    """

    def __init__(self) -> None:
        self.success, self.fail, self.queue = Duration(), Duration(), Duration()
        self.requests = RunStatistics()
        self.runs: dict[int, RunStatistics] = {}
        self.waited, self.computed = Distribution(), Distribution()
        self.last_inference = 0

    def answered(self, arrived: int, timing: Timing) -> None:
        """A request that came at ``arrived`` (nanoseconds of perf_counter_ns) has its answer."""
        self.success.add(time.perf_counter_ns() - arrived)
        waited = max(0, timing.begun - arrived)
        self.queue.add(waited)
        self.requests.add(timing)
        self.waited.add(waited / 1e9)

    def failed(self, arrived: int) -> None:
        """A request has got an error, or nobody waits for its answer any more."""
        self.fail.add(time.perf_counter_ns() - arrived)

    def ran(self, timing: Timing, rows: int) -> None:
        """The model has run for so many rows of requests."""
        self.runs.setdefault(rows, RunStatistics()).add(timing)
        self.computed.add((timing.done - timing.begun) / 1e9)
        self.last_inference = time.time_ns() // 1_000_000

    @property
    def execution_count(self) -> int:
        """Runs."""
        return sum(runs.compute_infer.count for runs in self.runs.values())

    @property
    def inference_count(self) -> int:
        """Rows."""
        return sum(rows * runs.compute_infer.count for rows, runs in self.runs.items())

    def fields(self, name: str) -> dict[str, Any]:
        """The protocol's ModelStatistics."""
        durations = {"success": self.success, "fail": self.fail, "queue": self.queue}
        return {
            "name": name,
            "version": VERSION,
            "last_inference": self.last_inference,
            "inference_count": self.inference_count,
            "execution_count": self.execution_count,
            "inference_stats": {
                **{word: duration.fields for word, duration in durations.items()},
                **self.requests.fields,
                "cache_hit": Duration().fields,
                "cache_miss": Duration().fields,
            },
            "batch_stats": [{"batch_size": rows, **self.runs[rows].fields} for rows in sorted(self.runs)],
            "memory_usage": [],
        }
