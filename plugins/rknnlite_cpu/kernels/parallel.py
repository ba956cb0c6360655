"""Work on blocks that fit the cache, on all cores of this process when there is enough of it.

numpy's element-wise loops run on one core and release the GIL; a small pool of threads drives the others.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Optional

__all__ = ["channel_blocks", "cores", "run_blocks"]

BLOCK_ELEMENTS = 1 << 16  # 256 KiB of float32: a block and its scratch stay in the second-level cache
_PARALLEL_ELEMENTS = 1 << 18  # below this, waking threads costs more than it saves

_pool: Optional[ThreadPoolExecutor] = None


def cores() -> int:
    """Cores this process may use; ``RKNNLITE_THREADS`` lowers the number."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wanted = os.environ.get("RKNNLITE_THREADS", "")
    return max(1, min(available, int(wanted))) if wanted.isdigit() else available


_CORES = cores()


def channel_blocks(channels: int, plane: int) -> list[slice]:
    """Cut ``channels`` planes of ``plane`` elements into slices of about ``BLOCK_ELEMENTS``."""
    step = max(1, min(channels, BLOCK_ELEMENTS // max(1, plane)))
    return [slice(start, min(start + step, channels)) for start in range(0, channels, step)]


def run_blocks(work: Callable[[slice], None], blocks: list[slice], elements: int) -> None:
    """Call ``work`` for every block; in parallel when ``elements`` in all are many."""
    if _CORES == 1 or len(blocks) < 2 or elements < _PARALLEL_ELEMENTS:
        for block in blocks:
            work(block)
        return
    shares = [blocks[i::_CORES] for i in range(_CORES)]
    futures = [_executor().submit(_run_share, work, share) for share in shares[1:] if share]
    try:
        _run_share(work, shares[0])
    finally:
        errors = [future.exception() for future in futures]
    for error in errors:
        if error is not None:
            raise error


def _run_share(work: Callable[[slice], None], share: list[slice]) -> None:
    for block in share:
        work(block)


def _executor() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(max_workers=max(1, _CORES - 1), thread_name_prefix="rknnlite-cpu")
    return _pool


def _forget_pool() -> None:
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)  # threads do not survive a fork
