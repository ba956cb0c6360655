"""The threads behind a pool: each owns one context, takes calls from one queue and answers them.

``Crew`` is what the threads share. It knows nothing of the ``Pool`` in front of it, so that a pool which nobody
refers to any more can be collected, and closed by its finalizer, while threads wait for work.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Optional

from ..errors import (
    ContextInvalid,
    InputInvalid,
    ModelUnsupported,
    OutputInvalid,
    ParamInvalid,
    RknnError,
    RunTimeout,
)
from ..log import logger
from ..native.processors import stay_on
from ..spi import Context, CustomOpFailed
from ..spi.exclusive import Unchanged
from .stats import PoolStats, WorkerStats, percentile

__all__ = ["Crew", "Job", "Worker"]

_CALLERS = (InputInvalid, OutputInvalid, ParamInvalid, ModelUnsupported, CustomOpFailed)
"""Errors that are about the call; any other error of the runtime puts its context in doubt."""
_KEPT = 4096  # latencies
_LAST_WAIT = 1.0  # seconds that closing waits for calls that were given up
_PATIENCE = 10.0  # seconds that a worker waits for another one to duplicate its context


@dataclass(eq=False)
class Job:
    """One call and where its answer goes: ``function(context, *arguments, **options)``, then ``post`` of that."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    post: Optional[Callable[[Any], Any]] = None
    unchanged: Optional[Unchanged] = None
    future: Future[Any] = field(default_factory=Future)
    asked: float = field(default_factory=time.monotonic)
    deadline: float = float("inf")


@dataclass(eq=False)
class _Copy:
    """A request of a worker without context: whoever is idle duplicates its own."""

    context: Optional[Context] = None
    answered: bool = False
    withdrawn: bool = False


@dataclass(eq=False)
class Worker:
    """One thread with one context; ``lost`` when its call did not end in time and another took its place."""

    number: int
    mask: Optional[int]
    context: Optional[Context] = None
    thread: Optional[threading.Thread] = None
    job: Optional[Job] = None
    lost: bool = False
    calls: int = 0
    errors: int = 0
    replaced: int = 0
    busy: float = 0.0


class Crew:
    """Workers, their queue, and the watch over calls that take too long.

    Args:
        reopen: opens the model once more.
        limit: calls that may wait; ``put`` blocks beyond that.
        timeout: seconds that a call may take in a worker; None: no limit.
        pin: processors that the threads stay on; empty: any.
    """

    def __init__(
        self,
        reopen: Callable[[], Context],
        limit: int,
        timeout: Optional[float],
        pin: Sequence[int] = (),
    ) -> None:
        self._reopen, self._pin = reopen, list(pin)
        self._limit, self._timeout = limit, timeout
        self._changed = threading.Condition()
        self._jobs: deque[Job] = deque()
        self._copies: deque[_Copy] = deque()
        self._workers: list[Worker] = []
        self._lost: list[Worker] = []
        self._gone: list[Worker] = []
        self._watcher: Optional[threading.Thread] = None
        self._latencies: deque[float] = deque(maxlen=_KEPT)
        self._broken: Optional[BaseException] = None
        self._stopping = False
        self._pid = os.getpid()
        self._began = time.monotonic()

    def start(self, contexts: Sequence[tuple[Context, Optional[int]]]) -> None:
        """One worker per context."""
        for number, (context, mask) in enumerate(contexts):
            self._begin(Worker(number, mask, context))
        if self._timeout is not None:
            self._watcher = threading.Thread(target=self._watch, name="rknnlite-pool-watch", daemon=True)
            self._watcher.start()

    def _begin(self, worker: Worker) -> None:
        name = f"rknnlite-pool-{worker.number}"
        worker.thread = threading.Thread(target=self._serve, args=(worker,), name=name, daemon=True)
        with self._changed:
            self._workers.append(worker)
        worker.thread.start()

    # -- for callers --------------------------------------------------------------------------------------

    def put(self, job: Job, wait: bool = True) -> bool:
        """Queue a call; False when the queue is full and ``wait`` is not set. Raises ContextInvalid."""
        with self._changed:
            # A future's callback may ask for more; those who answer futures must not wait for themselves.
            inside = threading.current_thread() in (
                self._watcher,
                *(worker.thread for worker in self._workers),
            )
            while len(self._jobs) >= self._limit and not inside and not self._closed():
                if not wait:
                    return False
                self._changed.wait()
            self._check()
            self._jobs.append(job)
            self._changed.notify_all()
        return True

    def _closed(self) -> bool:
        return self._stopping or self._broken is not None or self._pid != os.getpid()

    def _check(self) -> None:
        if self._pid != os.getpid():
            raise ContextInvalid(
                "this pool was made before a fork and belongs to the parent; make one in the child"
            )
        if self._stopping:
            raise ContextInvalid("this pool is closed; make a new one")
        if self._broken is not None:
            raise ContextInvalid(f"no worker of this pool is left: {self._broken}") from self._broken

    def stats(self) -> PoolStats:
        """Figures so far."""
        with self._changed:
            seconds = time.monotonic() - self._began
            workers = tuple(
                WorkerStats(w.number, w.mask, w.calls, w.errors, w.replaced, w.busy, w.busy / seconds)
                for w in sorted([*self._workers, *self._gone], key=lambda w: w.number)
            )
            latencies = list(self._latencies)
            running = sum(w.job is not None for w in self._workers)
            waiting = len(self._jobs)
        return PoolStats(
            workers, seconds, waiting, running, percentile(latencies, 0.5), percentile(latencies, 0.95)
        )

    def stop(self, cancel: bool, patience: Optional[float] = None) -> None:
        """Take no more calls; queued ones are answered first, or cancelled. Returns when the threads are done.

        ``patience`` is the time in seconds after which threads that still compute are left to themselves.
        """
        if self._pid != os.getpid():
            return
        with self._changed:
            self._stopping = True
            dropped = list(self._jobs) if cancel else []
            if cancel:
                self._jobs.clear()
            self._changed.notify_all()
            threads = [worker.thread for worker in self._workers]
            lost = [worker.thread for worker in self._lost]
        for job in dropped:
            job.future.cancel()
        _join(threads, patience)
        _join(lost, _LAST_WAIT)

    # -- the life of a worker -----------------------------------------------------------------------------

    def _serve(self, worker: Worker) -> None:
        if self._pin:
            stay_on(self._pin)
        if worker.context is None and not self._equip(worker):
            return
        while True:
            work = self._next(worker)
            if work is None:
                break
            if isinstance(work, _Copy):
                self._copy(worker, work)
                continue
            error = self._answer(worker, work)
            if worker.lost:
                with self._changed:
                    self._lost.remove(worker)
                break
            if error is not None and not self._replace(worker, error):
                return
        context = worker.context
        with self._changed:
            worker.context = None  # nobody waits for a duplicate of it
            self._changed.notify_all()
        if context is not None:
            context.close()

    def _next(self, worker: Worker) -> Job | _Copy | None:
        """The next thing to do; None to end. A call that was cancelled meanwhile is passed over."""
        with self._changed:
            while True:
                if self._copies:
                    return self._copies.popleft()
                if self._jobs:
                    job = self._jobs.popleft()
                    self._changed.notify_all()
                    if not job.future.set_running_or_notify_cancel():
                        continue
                    if self._timeout is not None:
                        job.deadline = time.monotonic() + self._timeout
                    worker.job = job
                    return job
                if self._stopping:
                    return None
                self._changed.wait()

    def _answer(self, worker: Worker, job: Job) -> Optional[RknnError]:
        """Compute and deliver; returns the error that puts the worker's context in doubt."""
        assert worker.context is not None
        began = time.monotonic()
        doubt: Optional[RknnError] = None
        failure: Optional[BaseException] = None
        result: Any = None
        try:
            try:
                result = job.function(worker.context, *job.arguments, **job.options)
            except _CALLERS:
                raise
            except RknnError as error:
                doubt = error
                raise
            if job.unchanged is not None:
                job.unchanged.check()
            if job.post is not None:
                result = job.post(result)
        except BaseException as error:
            failure = error
        with self._changed:
            if worker.lost:  # the watch has answered and another worker serves
                return doubt
            worker.job = None
            now = time.monotonic()
            worker.calls += 1
            worker.errors += failure is not None
            worker.busy += now - began
            self._latencies.append(now - job.asked)
        if failure is not None:
            job.future.set_exception(failure)
        else:
            job.future.set_result(result)
        return doubt

    def _replace(self, worker: Worker, error: RknnError) -> bool:
        """Give the worker a fresh context; False when there is none to be had and the worker ends."""
        logger.warning("pool: worker %d failed and gets a new context: %s", worker.number, error)
        context, worker.context = worker.context, None
        worker.replaced += 1
        try:
            if context is not None:
                context.close()
        except Exception as trouble:
            logger.warning("pool: the old context could not be closed: %s", trouble)
        with self._changed:
            if self._stopping and not self._jobs:
                return False
        return self._equip(worker)

    def _equip(self, worker: Worker) -> bool:
        try:
            context = self._duplicate(worker) or self._reopen()
            if worker.mask is not None:
                context.set_core_mask(worker.mask)
            worker.context = context
            return True
        except Exception as error:
            self._give_up(worker, error)
            return False

    def _duplicate(self, worker: Worker) -> Optional[Context]:
        """A duplicate of another worker's context; None when there is none or it refuses."""
        copy = _Copy()

        def settled() -> bool:
            others = [other for other in self._workers if other is not worker and other.context is not None]
            return copy.answered or not others

        with self._changed:
            self._copies.append(copy)
            self._changed.notify_all()
            self._changed.wait_for(settled, _PATIENCE)
            if copy in self._copies:
                self._copies.remove(copy)
            copy.withdrawn = True
            return copy.context

    def _copy(self, worker: Worker, request: _Copy) -> None:
        """Duplicate a worker's context for the one who asks, unless that has given up waiting."""
        twin: Optional[Context] = None
        try:
            twin = worker.context.dup() if worker.context is not None else None
        except RknnError as error:
            logger.debug("pool: a context cannot be duplicated: %s", error)
        with self._changed:
            request.answered = True
            if not request.withdrawn:
                request.context, twin = twin, None
            self._changed.notify_all()
        if twin is not None:
            twin.close()

    def _give_up(self, worker: Worker, error: BaseException) -> None:
        logger.error("pool: worker %d cannot go on: %s", worker.number, error)
        left: list[Job] = []
        with self._changed:
            self._workers.remove(worker)
            self._gone.append(worker)
            if not self._workers:
                self._broken = error
                left = list(self._jobs)
                self._jobs.clear()
            self._changed.notify_all()
        for job in left:
            if job.future.set_running_or_notify_cancel():
                job.future.set_exception(error)

    # -- calls that take too long -------------------------------------------------------------------------

    def _watch(self) -> None:
        while True:
            late: list[tuple[Worker, Job]] = []
            with self._changed:
                now = time.monotonic()
                for worker in self._workers:
                    if worker.job is not None and worker.job.deadline <= now:
                        worker.lost = True
                        late.append((worker, worker.job))
                for worker, _ in late:
                    self._workers.remove(worker)
                    self._lost.append(worker)
                if not late:
                    if self._idle_for_good():
                        return
                    # A call that begins after this look ends its time no earlier than ``timeout`` from now.
                    deadlines = [worker.job.deadline for worker in self._workers if worker.job is not None]
                    wait = min([*deadlines, now + (self._timeout or 1.0)]) - now
                    self._changed.wait_for(self._idle_for_good, max(wait, 1e-3))
                    continue
            for worker, job in late:
                self._abandon(worker, job)

    def _idle_for_good(self) -> bool:
        return self._stopping and not self._jobs and all(worker.job is None for worker in self._workers)

    def _abandon(self, worker: Worker, job: Job) -> None:
        """Answer for a worker that hangs and put another in its place; it ends when its call does."""
        successor = Worker(worker.number, worker.mask)
        successor.calls, successor.errors = worker.calls + 1, worker.errors + 1
        successor.replaced, successor.busy = worker.replaced + 1, worker.busy + (self._timeout or 0.0)
        self._begin(successor)
        job.future.set_exception(
            RunTimeout(
                f"the call did not end within {self._timeout} s; its worker was replaced. Look into dmesg for a reset "
                "of the NPU, or allow more time"
            )
        )


def _join(threads: Sequence[Optional[threading.Thread]], patience: Optional[float]) -> None:
    until = None if patience is None else time.monotonic() + patience
    for thread in threads:
        if thread is not None and thread is not threading.current_thread():
            thread.join(None if until is None else max(0.0, until - time.monotonic()))
