"""The processors of this machine: how many a process may use, which are the fast ones, and staying on them.

psutil is imported where it is needed: it takes longer to load than all the rest of the core.
"""

from __future__ import annotations

import os
import threading

__all__ = ["big_cores", "processors", "stay_on"]

_BIG = 0.9  # of the highest clock


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else len(_allowed())


def _allowed() -> list[int]:
    import psutil

    process = psutil.Process()
    if hasattr(process, "cpu_affinity"):
        return list(process.cpu_affinity())
    return list(range(psutil.cpu_count() or 1))


def stay_on(numbers: list[int]) -> None:
    """Keep the calling thread on some processors, where the system can."""
    import psutil

    thread = psutil.Process(threading.get_native_id())
    if hasattr(thread, "cpu_affinity"):
        thread.cpu_affinity(numbers)


def big_cores() -> list[int]:
    """Processors with the highest clock; empty where all have the same, or nobody knows."""
    import psutil

    try:
        clocks = [frequency.max for frequency in psutil.cpu_freq(percpu=True)]
    except (AttributeError, NotImplementedError, OSError):
        return []
    allowed = _allowed()
    top = max(clocks, default=0.0)
    if top <= 0 or min(clocks) >= _BIG * top:
        return []
    return [number for number in allowed if number < len(clocks) and clocks[number] >= _BIG * top]
