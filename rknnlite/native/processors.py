"""The processors of this machine: how many a process may use, which are the fast ones, staying on them, using them all.

psutil is imported where it is needed: it takes longer to load than all the rest of the core.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
import zlib
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, Optional, TypeVar

__all__ = ["HelperThreads", "big_cores", "features", "instructions", "machine", "processors", "stay_on"]

T = TypeVar("T")
_Ends = SimpleQueue["tuple[int, Optional[BaseException]]"]
_Task = tuple[Callable[[Any], None], Sequence[Any], int, _Ends]

_BIG = 0.9  # of the highest clock
_ELF_MACHINES = {3: "i686", 40: "armv7l", 62: "x86_64", 183: "aarch64", 243: "riscv64"}


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else len(_allowed())


def _allowed() -> list[int]:
    import psutil

    process = psutil.Process()
    if hasattr(process, "cpu_affinity"):
        return list(process.cpu_affinity())
    return list(range(psutil.cpu_count() or 1))


@functools.lru_cache(maxsize=1)
def features() -> str:
    """What Linux says of the processor's instructions, words with spaces between them; empty where nobody knows."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:  # noqa: PTH123
        return next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return ""


@functools.lru_cache(maxsize=1)
def machine() -> str:
    """What this Python is made for, in the words of ``uname -m``, which itself says a board's name in ``rknnlite exec --soc``."""
    with contextlib.suppress(OSError), open("/proc/self/exe", "rb") as program:  # noqa: PTH123
        found = _ELF_MACHINES.get(int.from_bytes(program.read(20)[18:], sys.byteorder))
        if found:
            return found
    return os.uname().machine


def instructions() -> str:
    """A short text that differs between processors with other instructions."""
    return f"{machine()}-{zlib.crc32(features().encode()):08x}"


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


class HelperThreads:
    """Threads that are made when they are first needed, once per process, and wait for work until it ends.

    They help whoever calls ``run``, and nothing depends on them: where no thread can be made, as when the
    interpreter ends (``atexit``, daemon threads, finalizers), the caller does all the work.

    Args:
        name: of the threads.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.forget()

    def forget(self) -> None:
        """After a fork, which threads do not survive."""
        self._lock = threading.Lock()
        self._tasks: Optional[SimpleQueue[_Task]] = None

    def most(self) -> int:
        """How many threads there may be beside the caller's."""
        return processors() - 1

    def run(self, work: Callable[[T], None], shares: Sequence[Sequence[T]]) -> None:
        """Call ``work`` for all of every share, the first share in the calling thread.

        The first error is raised when all are done.
        """
        own, *others = shares
        ends: _Ends = SimpleQueue()
        tasks = self._waiting() if others else None
        if tasks is None:
            own = [one for share in shares for one in share]
            others = []
        else:
            for number, share_of_it in enumerate(others):
                tasks.put((work, share_of_it, number, ends))
        try:
            for one in own:
                work(one)
        finally:
            results = [ends.get() for _ in others]
        for _, error in sorted(results):
            if error is not None:
                try:
                    raise error
                finally:
                    del error, results  # an error that this frame holds would hold the frame

    def _waiting(self) -> Optional[SimpleQueue[_Task]]:
        """Where the threads take their work from; None where there is no thread."""
        if sys.is_finalizing():  # those that there are stand still for good
            return None
        return self._tasks or self._start()

    def _start(self) -> Optional[SimpleQueue[_Task]]:
        with self._lock:
            if self._tasks is None:
                tasks: SimpleQueue[_Task] = SimpleQueue()
                for number in range(max(1, self.most())):
                    name = f"{self._name}_{number}"
                    try:
                        threading.Thread(target=_serve, args=(tasks,), name=name, daemon=True).start()
                    except RuntimeError:  # the interpreter ends, or the system has no thread left
                        if number == 0:
                            return None
                        break
                self._tasks = tasks
            return self._tasks


def _serve(tasks: SimpleQueue[_Task]) -> None:
    """Life of a thread. When it tells the end of a task it holds nothing of it any more: arrays go when they should."""
    while True:
        work, share_of_it, number, ends = tasks.get()
        error: Optional[BaseException] = None
        try:
            for one in share_of_it:
                work(one)
        except BaseException as caught:
            error = caught
        del work
        ends.put((number, error))
        del ends, error
