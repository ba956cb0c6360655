"""What the workers of a pool share: the queue of calls, the list of who is there, the watch over late calls.

It knows nothing of the ``Pool`` in front of it, so that a pool which nobody refers to any more can be collected, and
closed by its finalizer, while threads wait for work.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Optional

from ..errors import ContextInvalid, RunTimeout
from ..log import logger
from ..native.forks import Owner
from ..spi import Context
from .stats import PoolStats, WorkerStats, percentile
from .worker import CopyRequest, Job, Worker

__all__ = ["WorkerGroup"]

_KEPT = 4096  # latencies
_LAST_WAIT = 1.0  # seconds that closing waits for calls that were given up
_PATIENCE = 10.0  # seconds that a worker waits for another one to duplicate its context


class WorkerGroup:
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
        self.reopen, self.pin = reopen, list(pin)
        self._limit, self._timeout = limit, timeout
        # One lock, and a condition for each kind of waiting: waking everybody for every call costs more than the call.
        # The lock is one that its holder may take again: a collection in there may finalise the pool, which stops us.
        self._lock = threading.RLock()
        self._work, self._room = threading.Condition(self._lock), threading.Condition(self._lock)
        self._copied, self._ending = threading.Condition(self._lock), threading.Condition(self._lock)
        self._jobs: deque[Job] = deque()
        self._copies: deque[CopyRequest] = deque()
        self._workers: list[Worker] = []
        self._lost: list[Worker] = []
        self._gone: list[Worker] = []
        self._watcher: Optional[threading.Thread] = None
        self._latencies: deque[float] = deque(maxlen=_KEPT)
        self._broken: Optional[BaseException] = None
        self._stopping = False
        self._owner = Owner()
        self._began = time.monotonic()

    def start(self, contexts: Sequence[tuple[Context, Optional[int]]]) -> None:
        """One worker per context."""
        for number, (context, mask) in enumerate(contexts):
            Worker(number, mask, context).begin(self)
        if self._timeout is not None:
            self._watcher = threading.Thread(target=self._watch, name="rknnlite-pool-watch", daemon=True)
            self._watcher.start()

    # -- for callers --------------------------------------------------------------------------------------

    def put(self, job: Job, wait: bool = True) -> bool:
        """Queue a call; False when the queue is full and ``wait`` is not set. Raises ContextInvalid."""
        self._check_interrupts_nobody()
        with self._lock:
            # A future's callback may ask for more; those who answer futures must not wait for themselves.
            inside = threading.current_thread() in (
                self._watcher,
                *(worker.thread for worker in self._workers),
            )
            while len(self._jobs) >= self._limit and not inside and not self._closed():
                if not wait:
                    return False
                self._room.wait()
            self._check()
            self._jobs.append(job)
            self._work.notify()
        return True

    def _holds_lock(self) -> bool:
        """Whether this thread has the lock already; threading's conditions ask it in the same way."""
        return bool(self._lock._is_owned())  # type: ignore[attr-defined]

    def _check_interrupts_nobody(self) -> None:
        """Whoever waits with the lock waits for ever: a signal handler that came while its thread had it."""
        if self._holds_lock():
            raise ContextInvalid(
                "this call interrupts another one into the pool: a signal handler; set a flag there and call later"
            )

    def _closed(self) -> bool:
        return self._stopping or self._broken is not None or not self._owner.is_here

    def _check(self) -> None:
        self._owner.check("this pool", "make one in the child")
        if self._stopping:
            raise ContextInvalid("this pool is closed; make a new one")
        if self._broken is not None:
            raise ContextInvalid(f"no worker of this pool is left: {self._broken}") from self._broken

    def stats(self) -> PoolStats:
        """Figures so far."""
        with self._lock:
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
        if not self._owner.is_here:
            return
        if patience is None:
            self._check_interrupts_nobody()
        inside = self._holds_lock()  # a collection in there finalises the pool
        with self._lock:
            self._stopping = True
            dropped = list(self._jobs) if cancel else []
            if cancel:
                self._jobs.clear()
            self._wake_all()
            threads = [worker.thread for worker in self._workers]
            lost = [worker.thread for worker in self._lost]
        for job in dropped:
            job.future.cancel()
        if not inside:
            _join(threads, patience)
            _join(lost, _LAST_WAIT)

    # -- for workers --------------------------------------------------------------------------------------

    def join(self, worker: Worker) -> None:
        """A worker begins."""
        with self._lock:
            self._workers.append(worker)

    def next(self, worker: Worker) -> Job | CopyRequest | None:
        """The next thing to do; None to end. A call that was cancelled meanwhile is passed over."""
        while True:
            work = self._take(worker)
            if not isinstance(work, Job):
                return work
            # Not under our lock: the future has one of its own, and a signal handler may have stopped who holds it.
            if work.future.set_running_or_notify_cancel():
                if self._timeout is not None:
                    work.deadline = time.monotonic() + self._timeout
                return work
            worker.job = None

    def _take(self, worker: Worker) -> Job | CopyRequest | None:
        """What is next in the queues, waited for; None to end."""
        with self._lock:
            while True:
                if self._copies:
                    return self._copies.popleft()
                if self._jobs:
                    worker.job = self._jobs.popleft()
                    self._room.notify()
                    return worker.job
                if self._stopping:
                    self._ending.notify_all()
                    return None
                self._work.wait()

    def done(self, worker: Worker, job: Job, began: float, failed: bool) -> bool:
        """A call has ended; False when the watch has answered it, and the worker is lost."""
        with self._lock:
            if worker.lost:
                return False
            worker.job = None
            now = time.monotonic()
            worker.calls += 1
            worker.errors += failed
            worker.busy += now - began
            self._latencies.append(now - job.asked)
        return True

    def finished(self) -> bool:
        """Whether the pool is closing and no call is left."""
        with self._lock:
            return self._stopping and not self._jobs

    def found(self, worker: Worker) -> None:
        """The call of a lost worker has ended after all."""
        with self._lock:
            self._lost.remove(worker)

    def take_context(self, worker: Worker) -> Optional[Context]:
        """The context of a worker that ends; nobody waits for a duplicate of it any more."""
        with self._lock:
            context, worker.context = worker.context, None
            self._copied.notify_all()
        return context

    def duplicate(self, worker: Worker) -> Optional[Context]:
        """A duplicate of another worker's context; None when there is none or it refuses."""
        copy = CopyRequest()

        def settled() -> bool:
            others = [other for other in self._workers if other is not worker and other.context is not None]
            return copy.answered or not others

        with self._lock:
            self._copies.append(copy)
            self._work.notify()
            self._copied.wait_for(settled, _PATIENCE)
            if copy in self._copies:
                self._copies.remove(copy)
            copy.withdrawn = True
            return copy.context

    def hand_over(self, request: CopyRequest, twin: Optional[Context]) -> bool:
        """Answer a request; False when nobody waits for it any more."""
        with self._lock:
            request.answered = True
            wanted = not request.withdrawn
            if wanted:
                request.context = twin
            self._copied.notify_all()
        return wanted

    def give_up(self, worker: Worker, error: BaseException) -> None:
        """A worker that gets no context ends; when it was the last, all that wait are told."""
        logger.error("pool: worker %d cannot go on: %s", worker.number, error)
        left: list[Job] = []
        with self._lock:
            self._workers.remove(worker)
            self._gone.append(worker)
            if not self._workers:
                self._broken = error
                left = list(self._jobs)
                self._jobs.clear()
            self._wake_all()
        for job in left:
            if job.future.set_running_or_notify_cancel():
                job.future.set_exception(error)

    def _wake_all(self) -> None:
        for condition in (self._work, self._room, self._copied, self._ending):
            condition.notify_all()

    # -- calls that take too long -------------------------------------------------------------------------

    def _watch(self) -> None:
        while True:
            late: list[tuple[Worker, Job]] = []
            with self._lock:
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
                    self._ending.wait_for(self._idle_for_good, max(wait, 1e-3))
                    continue
            for worker, job in late:
                self._abandon(worker, job)

    def _idle_for_good(self) -> bool:
        return self._stopping and not self._jobs and all(worker.job is None for worker in self._workers)

    def _abandon(self, worker: Worker, job: Job) -> None:
        """Answer for a worker that hangs and put another in its place; it ends when its call does."""
        worker.successor(self._timeout or 0.0).begin(self)
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
