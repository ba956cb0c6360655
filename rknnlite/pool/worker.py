"""One worker of a pool: a thread with a context of its own, which takes calls and answers them.

The group is what workers share; a worker is handed it for the life of its thread and does not keep it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Optional, Protocol, Union

from ..errors import ContextInvalid, InputInvalid, ModelUnsupported, OutputInvalid, ParamInvalid, RknnError
from ..log import logger
from ..native.processors import stay_on
from ..spi import Context, CustomOpFailed
from ..spi.exclusive import Unchanged
from .future import PoolAnswer

__all__ = ["CopyRequest", "Job", "Worker"]

_CALLERS = (InputInvalid, OutputInvalid, ParamInvalid, ModelUnsupported, CustomOpFailed)
"""Errors that are about the call; any other error of the runtime puts its context in doubt."""


@dataclass(eq=False)
class Job:
    """One call and where its answer goes: ``function(context, *arguments, **options)``, then ``post`` of that.

    ``mask`` is the core mask for this call alone; None: the worker's own.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    post: Optional[Callable[[Any], Any]] = None
    unchanged: Optional[Unchanged] = None
    mask: Optional[int] = None
    future: PoolAnswer = field(default_factory=PoolAnswer)
    asked: float = field(default_factory=time.monotonic)
    deadline: float = float("inf")


@dataclass(eq=False)
class CopyRequest:
    """A request of a worker without context: whoever is idle duplicates its own."""

    context: Optional[Context] = None
    answered: bool = False
    withdrawn: bool = False


class WorkerGroup(Protocol):
    """What a worker asks of those it works with; ``worker_group.WorkerGroup`` answers."""

    pin: list[int]

    def reopen(self) -> Context:
        """A context from the model file."""

    def join(self, worker: Worker) -> None:
        """A worker begins."""

    def next(self, worker: Worker) -> Union[Job, CopyRequest, None]:
        """The next thing to do; None to end."""

    def done(self, worker: Worker, job: Job, began: float, failed: bool) -> bool:
        """A call has ended; False when it has been answered already, and the worker is lost."""

    def finished(self) -> bool:
        """Whether the pool is closing and no call is left."""

    def found(self, worker: Worker) -> None:
        """The call of a lost worker has ended after all."""

    def take_context(self, worker: Worker) -> Optional[Context]:
        """The context of a worker that ends."""

    def duplicate(self, worker: Worker) -> Optional[Context]:
        """A duplicate of another worker's context; None when there is none."""

    def hand_over(self, request: CopyRequest, twin: Optional[Context]) -> bool:
        """Answer a request; False when nobody waits for it any more."""

    def give_up(self, worker: Worker, error: BaseException) -> None:
        """A worker that gets no context ends."""


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

    def begin(self, group: WorkerGroup) -> None:
        """Start the thread. Raises ContextInvalid when there is none to be had."""
        name = f"rknnlite-pool-{self.number}"
        self.thread = threading.Thread(target=self._serve, args=(group,), name=name, daemon=True)
        group.join(self)
        try:
            self.thread.start()
        except RuntimeError as error:
            self.thread = None
            raise ContextInvalid(
                f"no thread for worker {self.number} of the pool ({error}); where the program ends, open the model "
                "and call infer, which needs none"
            ) from None

    def successor(self, seconds: float) -> Worker:
        """The worker that takes the place of this one, whose call did not end within ``seconds``."""
        return Worker(
            self.number,
            self.mask,
            calls=self.calls + 1,
            errors=self.errors + 1,
            replaced=self.replaced + 1,
            busy=self.busy + seconds,
        )

    def _serve(self, group: WorkerGroup) -> None:
        if group.pin:
            stay_on(group.pin)
        if self.context is None and not self._equip(group):
            return
        while True:
            work = group.next(self)
            if work is None:
                break
            if isinstance(work, CopyRequest):
                self._copy(group, work)
                continue
            error = self._answer(group, work)
            if self.lost:
                group.found(self)
                break
            if error is not None and not self._replace(group, error):
                return
        context = group.take_context(self)
        if context is not None:
            context.close()

    def _answer(self, group: WorkerGroup, job: Job) -> Optional[RknnError]:
        """Compute and deliver; returns the error that puts the context in doubt."""
        assert self.context is not None
        began = time.monotonic()
        doubt: Optional[RknnError] = None
        failure: Optional[BaseException] = None
        result: Any = None
        try:
            try:
                result = self._call(self.context, job)
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
        if not group.done(self, job, began, failure is not None):
            return doubt  # the watch has answered and another worker serves
        if failure is not None:
            job.future.set_exception(failure)
        else:
            job.future.set_result(result)
        return doubt

    def _call(self, context: Context, job: Job) -> Any:
        if job.mask is None:
            return job.function(context, *job.arguments, **job.options)
        context.set_core_mask(job.mask)
        try:
            return job.function(context, *job.arguments, **job.options)
        finally:
            context.set_core_mask(self.mask or 0)

    def _replace(self, group: WorkerGroup, error: RknnError) -> bool:
        """Get a fresh context; False when there is none to be had, or no need of one, and the worker ends."""
        logger.warning("pool: worker %d failed and gets a new context: %s", self.number, error)
        context, self.context = self.context, None
        self.replaced += 1
        try:
            if context is not None:
                context.close()
        except Exception as trouble:
            logger.warning("pool: the old context could not be closed: %s", trouble)
        return not group.finished() and self._equip(group)

    def _equip(self, group: WorkerGroup) -> bool:
        try:
            context = group.duplicate(self) or group.reopen()
            if self.mask is not None:
                context.set_core_mask(self.mask)
            self.context = context
            return True
        except Exception as error:
            group.give_up(self, error)
            return False

    def _copy(self, group: WorkerGroup, request: CopyRequest) -> None:
        """Duplicate the context for the one who asks, unless that has given up waiting."""
        twin: Optional[Context] = None
        try:
            twin = self.context.dup() if self.context is not None else None
        except RknnError as error:
            logger.debug("pool: a context cannot be duplicated: %s", error)
        if not group.hand_over(request, twin) and twin is not None:
            twin.close()
