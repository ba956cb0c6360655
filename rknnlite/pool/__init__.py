"""Several contexts of one model at once: ``rknnlite.Pool``, its workers and figures."""

from __future__ import annotations

from .core_masks import Cores
from .pool import Pool
from .stats import PoolStats, WorkerStats

__all__ = ["Cores", "Pool", "PoolStats", "WorkerStats"]
