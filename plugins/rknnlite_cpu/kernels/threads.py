"""How many threads a computation may use: its share of the machine, for our own loops and for numpy's BLAS.

Our loops read the share of the thread that calls them, and divide matrix products themselves. A BLAS has one
number for the whole process; while computations are under way it is 1, and put back afterwards. OpenBLAS's threads wait
for each other busily: on a machine with other work to do, products took ten times as long with them (measured), and
contexts that run side by side would take turns at one lock inside the library.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import re
import threading
from pathlib import Path
from typing import Any, Optional

from rknnlite import config
from rknnlite.native.forks import after_fork

__all__ = ["cores", "limited", "share"]

_FUNCTIONS = (
    ("scipy_openblas_get_num_threads64_", "scipy_openblas_set_num_threads64_"),
    ("scipy_openblas_get_num_threads", "scipy_openblas_set_num_threads"),
    ("openblas_get_num_threads64_", "openblas_set_num_threads64_"),
    ("openblas_get_num_threads", "openblas_set_num_threads"),
    ("MKL_Get_Max_Threads", "MKL_Set_Num_Threads"),
    ("bli_thread_get_num_threads", "bli_thread_set_num_threads"),
)
"""What numpy's wheels, OpenBLAS, MKL and BLIS call the two functions.

The package threadpoolctl knows them, too, but not as they are needed here, for the whole process and put back by whichever
thread ends last: its 3.8 lets one thread alone set OpenBLAS's number, and sets MKL's for the calling thread.
"""

_NAMES = re.compile(r"blas|blis|mkl_rt")

_mine = threading.local()
_computing: list[None] = []  # one for each computation under way; threads append and pop at any time
_lock = threading.Lock()  # nobody waits for it, see ``_adjust``
_alone = False  # whether BLAS was told to compute alone
_before = 0


def cores() -> int:
    """Cores this process may use; ``RKNNLITE_THREADS`` lowers the number."""
    wanted = config.get("threads") or ""
    return max(1, min(_machine(), int(wanted))) if wanted.isdigit() else _machine()


def _machine() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_CORES = cores()


def share() -> int:
    """Threads that a computation of the calling thread may use."""
    return getattr(_mine, "share", None) or _CORES


class limited:
    """Inside, computations of the calling thread use at most ``threads`` threads."""

    __slots__ = ("_before", "_threads")

    def __init__(self, threads: int) -> None:
        self._threads = threads

    def __enter__(self) -> None:
        self._before = before = getattr(_mine, "share", None)
        most, threads = before or _CORES, self._threads
        _mine.share = (threads if threads < most else most) if threads > 1 else 1
        blas = _blas()
        if blas is not None:
            _computing.append(None)
            _adjust(blas)

    def __exit__(self, *exc: object) -> None:
        blas = _blas()
        if blas is not None:
            if _computing:  # else a fork came in between
                _computing.pop()
            _adjust(blas)
        _mine.share = self._before


def _adjust(blas: _Blas) -> None:
    """Tell BLAS to compute alone while anything is computed, and with its own number otherwise.

    A signal handler may come in the middle of this, and wait for another thread that computes. So nobody waits here: whoever
    is at it already looks again when he has done it.
    """
    global _alone, _before
    while bool(_computing) != _alone and _lock.acquire(False):
        try:
            alone = bool(_computing)
            if alone and not _alone:
                _before = blas.get()
            if alone != _alone and _before != 1:
                blas.set(1 if alone else _before)
            _alone = alone
        finally:
            _lock.release()


class _Blas:
    """The two functions of a loaded library."""

    def __init__(self, getter: Any, setter: Any) -> None:
        getter.restype, setter.argtypes, setter.restype = ctypes.c_int, (ctypes.c_int,), None
        self.get = getter
        self.set = setter


@functools.cache
def _blas() -> Optional[_Blas]:
    """The library by which numpy multiplies; None for one that is not known here, which is then left as it is."""
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    paths = {line.split(maxsplit=5)[5] for line in lines if line.count("/") and _NAMES.search(line)}
    files = {path for path in paths if "opencv" not in path}  # its wheel brings one of its own
    for file in sorted(files, key=lambda name: ("numpy" not in name, name)):
        with contextlib.suppress(OSError):
            library = ctypes.CDLL(file)
            for getter, setter in _FUNCTIONS:
                if hasattr(library, setter) and hasattr(library, getter):
                    return _Blas(getattr(library, getter), getattr(library, setter))
    return None


def _forget() -> None:
    """A forked child starts over; the thread that forked may have been inside a computation."""
    global _lock, _mine, _alone
    if _alone and (blas := _blas()) is not None:
        blas.set(_before)
    _computing.clear()
    _lock, _mine, _alone = threading.Lock(), threading.local(), False


after_fork(_forget)
