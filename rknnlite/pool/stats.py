"""What a pool tells about itself: per worker and in all, as data and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from .core_masks import mask_label

__all__ = ["PoolStats", "WorkerStats", "percentile"]


@dataclass(frozen=True)
class WorkerStats:
    """One worker.

    ``core_mask`` None leaves the choice to the runtime; ``busy`` is seconds spent in calls, ``share`` that part of
    the pool's life; ``replaced`` counts how often its context had to be made anew.

    Examples:
        >>> with rknnlite.Pool("examples/resnet18/resnet18_for_RK3588.rknn", workers=1, cores="all") as pool:
        ...     [worker.number for worker in pool.stats().workers]
        [0]
    """

    number: int
    core_mask: Optional[int]
    calls: int
    errors: int
    replaced: int
    busy: float
    share: float


@dataclass(frozen=True)
class PoolStats:
    """All workers; latencies count from ``submit`` to the result, in seconds, over the last few thousand calls.

    Examples:
        >>> with rknnlite.Pool("examples/resnet18/resnet18_for_RK3588.rknn", workers=1) as pool:
        ...     stats = pool.stats()
        >>> len(stats.workers), stats.calls
        (1, 0)
    """

    workers: tuple[WorkerStats, ...]
    seconds: float
    waiting: int
    running: int
    p50: float
    p95: float

    @property
    def calls(self) -> int:
        """Calls that were answered, failed ones included."""
        return sum(worker.calls for worker in self.workers)

    @property
    def errors(self) -> int:
        """Calls that ended in an exception."""
        return sum(worker.errors for worker in self.workers)

    def __str__(self) -> str:
        lines = [
            f"{'worker':>6}  {'cores':<12}{'calls':>8}{'errors':>8}{'replaced':>10}{'busy':>9}{'share':>8}"
        ]
        lines += [
            f"{worker.number:>6}  {mask_label(worker.core_mask):<12}{worker.calls:>8}{worker.errors:>8}"
            f"{worker.replaced:>10}{worker.busy:>8.1f}s{worker.share:>8.0%}"
            for worker in self.workers
        ]
        rate = self.calls / self.seconds if self.seconds else 0.0
        lines.append(
            f"{self.calls} calls in {self.seconds:.1f} s, {rate:.1f} per second; latency p50 {self.p50 * 1e3:.1f} ms, "
            f"p95 {self.p95 * 1e3:.1f} ms"
        )
        return "\n".join(lines)


def percentile(values: Sequence[float], fraction: float) -> float:
    """The smallest of ``values`` that at least ``fraction`` of them do not exceed; 0 for none."""
    if not values:
        return 0.0
    ordered = sorted(values)
    rank = -(-len(ordered) * fraction // 1)
    return ordered[max(0, min(len(ordered), int(rank)) - 1)]
