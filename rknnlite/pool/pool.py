"""A pool of contexts of one model: one per worker thread, spread over the NPU's cores.

>>> with rknnlite.Pool("model.rknn") as pool:                       # doctest: +SKIP
...     for frame, outputs in zip(frames, pool.map(frames)):        # in order, a few frames ahead
...         show(frame, outputs)
"""

from __future__ import annotations

import functools
import os
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Optional

from ..errors import OutOfMemory, ParamInvalid, RknnError
from ..formats import ModelFile
from ..native.processors import big_cores, processors
from ..runtime import open_model
from ..socs import Soc
from ..spi import Context
from ..spi.arguments import Typed, WrongType
from ..spi.exclusive import Unchanged, debugging
from .core_masks import Cores, core_masks
from .stats import PoolStats, WorkerStats
from .worker import Job
from .worker_group import WorkerGroup

__all__ = ["Cores", "Pool", "PoolStats", "WorkerStats"]

_WIDE = 4  # the CPU reference holds elements as float32 that take a byte on the NPU
_AT_EXIT = 5.0  # seconds that a program which ends waits for calls under way


class Pool(Typed):
    """Runs a model on several contexts at once. Any thread may call; a result reaches only the call it belongs to.

    Args:
        model: path, bytes or a ModelFile. Of a path no copy of the file stays in memory.
        workers: how many, each with a context and a thread; None: one per NPU core (on the CPU reference at most one
            per core of the machine). ``size``, the former name, is taken as well.
        cores: ``"spread"`` gives each worker one NPU core in turn, ``"auto"`` leaves the choice to the runtime,
            ``"all"`` lets each use all; or one mask for all, or one mask per worker. SoCs with one core take none.
        backend: as for ``rknnlite.open``.
        queue: calls that may wait for a worker before ``submit`` blocks; None: four per worker.
        timeout: seconds that a call may take once it has begun; None: no limit. A worker that takes longer is replaced.
        post: function applied to the outputs of every call, in the worker; what it returns is the result.
        pin: keep the threads on the processors with the highest clock, as the RKNN user guide advises.
        options: further arguments of ``rknnlite.open``.

    Inputs are not copied: keep them as they are until the result is there (``RKNNLITE_DEBUG=1`` checks that).

    Raises:
        OutOfMemory: so many contexts do not fit; the text says how many do.
        ParamInvalid, TargetPlatformUnmatch: core masks that the SoC does not have, less than one worker, a queue below 1.

    Examples:
        >>> frames = [np.full((1, 224, 224, 3), n, np.uint8) for n in range(4)]
        >>> with rknnlite.Pool("examples/resnet18/resnet18_for_RK3588.rknn", workers=2) as pool:
        ...     best = [int(logits.argmax()) for (logits,) in pool.map(frames)]
        >>> len(best)
        4
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes | bytearray | memoryview | ModelFile,
        workers: Optional[int] = None,
        cores: Cores = "spread",
        backend: Optional[str] = None,
        queue: Optional[int] = None,
        *,
        timeout: Optional[float] = None,
        post: Optional[Callable[[list[Any]], Any]] = None,
        pin: bool = False,
        **options: Any,
    ) -> None:
        workers = options.pop("size", workers)  # its former name
        _check_arguments(workers, queue, timeout, options)
        source = model if isinstance(model, (bytes, bytearray, memoryview, ModelFile)) else os.fspath(model)
        first = open_model(source, backend, **options)
        contexts = [first]
        try:
            computes_here = first.limit_threads(1)
            self.workers = workers or _default_workers(first.soc, computes_here)
            share = max(1, processors() // self.workers)
            masks = core_masks(first.soc, self.workers, cores)
            _check_memory(first, self.workers, _WIDE if computes_here else 1)
            again = functools.partial(_open, source, backend, share, options)
            while len(contexts) < self.workers:
                contexts.append(_another(first, again, len(contexts), self.workers))
            for context, mask in zip(contexts, masks):
                context.limit_threads(share)
                if mask is not None:
                    context.set_core_mask(mask)
        except BaseException:
            for context in reversed(contexts):
                context.close()
            raise
        self.soc, self.platform, self.backend_name = first.soc, first.platform, first.backend_name
        self.inputs, self.outputs = first.inputs, first.outputs
        self.batch, self.shapes = first.batch, first.shapes
        self._look_ahead = 2 * self.workers
        self._post = post
        self._group = WorkerGroup(again, queue or 4 * self.workers, timeout, big_cores() if pin else ())
        try:
            self._group.start(list(zip(contexts, masks)))
        except BaseException:
            self._group.stop(True, _AT_EXIT)
            for context in contexts:
                context.close()
            raise
        self._finalizer = weakref.finalize(self, self._group.stop, True, _AT_EXIT)

    # -- calls --------------------------------------------------------------------------------------------

    def submit(self, *inputs: Any, **options: Any) -> Future[Any]:
        """Queue a call and return; arguments are those of ``Context.infer``. Waits while the queue is full.

        The future's ``result()`` is what ``infer`` (or ``post``) returns, or raises what it raises.

        Raises:
            ContextInvalid: the pool is closed, or no worker is left.
        """
        job = _job(_infer, inputs, options, self._post)
        self._group.put(job)
        return job.future

    def call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Future[Any]:
        """Queue ``function(context, *arguments, **options)``: for what ``infer`` does not do, such as bound memory.

        The function has the worker's context to itself as long as it runs; its result is that of the future.
        """
        job = _job(_callable(function), arguments, options)
        self._group.put(job)
        return job.future

    def call_on(
        self, mask: Optional[int], function: Callable[..., Any], *arguments: Any, **options: Any
    ) -> Future[Any]:
        """``call`` with a core mask for this call alone; None: the worker's own. Raises as ``Context.set_core_mask``."""
        if mask is not None:
            self.soc.check_core_mask(mask)
        job = _job(_callable(function), arguments, options)
        job.mask = mask if self.soc.masks else None
        self._group.put(job)
        return job.future

    async def infer(self, *inputs: Any, **options: Any) -> Any:
        """``submit`` for coroutines; a full queue suspends the coroutine, not the event loop."""
        import asyncio

        job = _job(_infer, inputs, options, self._post)
        if not self._group.put(job, wait=False):
            await asyncio.get_running_loop().run_in_executor(None, self._group.put, job)
        return await asyncio.wrap_future(job.future)

    def map(
        self,
        items: Iterable[Any],
        look_ahead: Optional[int] = None,
        call: Optional[Callable[..., Any]] = None,
        **options: Any,
    ) -> Iterator[Any]:
        """Results in the order of ``items``, each of which is what ``infer`` takes as its only argument.

        ``items`` may be endless: at most ``look_ahead`` of them (two per worker) are under way at any time. With
        ``call`` a result is ``call(context, item)``. An exception of a call is raised in its place and ends the
        iteration; calls that have not begun are cancelled.
        """
        ahead = self._look_ahead if look_ahead is None else look_ahead
        if ahead < 1:
            raise ParamInvalid(f"look_ahead must be at least 1, not {ahead}")
        begin = self.submit if call is None else functools.partial(self.call, call)
        return _in_order(begin, iter(items), ahead, options)

    @property
    def size(self) -> int:
        """The former name of ``workers``."""
        return self.workers

    # -- figures and life ---------------------------------------------------------------------------------

    def stats(self) -> PoolStats:
        """Calls, errors, replaced contexts and busy time per worker; latencies. ``str`` of it is a table."""
        return self._group.stats()

    def close(self, cancel: bool = False) -> None:
        """Take no more calls, answer those in the queue (``cancel``: cancel them), and close the contexts.

        May be called again, also from several threads; calls that run are always waited for.
        """
        self._group.stop(cancel)
        self._finalizer.detach()

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(cancel=kind is not None)

    def __repr__(self) -> str:
        return f"<Pool of {self.workers} on {self.backend_name} ({self.soc.name})>"


def _infer(context: Context, *inputs: Any, **options: Any) -> list[Any]:
    return context.infer(*inputs, **options)


def _job(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    options: dict[str, Any],
    post: Optional[Callable[[Any], Any]] = None,
) -> Job:
    return Job(function, arguments, options, post, Unchanged(arguments) if debugging() else None)


def _in_order(
    begin: Callable[..., Future[Any]], items: Iterable[Any], ahead: int, options: Mapping[str, Any]
) -> Iterator[Any]:
    pending: deque[Future[Any]] = deque()
    try:
        for item in items:
            pending.append(begin(item, **options))
            if len(pending) >= ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()


def _check_arguments(
    workers: Optional[int], queue: Optional[int], timeout: Optional[float], options: Mapping[str, Any]
) -> None:
    for name, value in (("workers", workers), ("queue", queue), ("timeout", timeout)):
        if value is not None and not value > 0:
            raise ParamInvalid(f"{name} must be above 0, not {value}")
    for name in ("async_mode", "core_mask", "threads"):
        if options.get(name):
            raise ParamInvalid(f"a pool takes no {name}: it sets that for each worker itself (see cores=)")


def _callable(function: Any) -> Any:
    """The function; raises WrongType here and not when a worker would call it."""
    if not callable(function):
        raise WrongType(f"function is {type(function).__name__}, must be callable with a context")
    return function


def _open(source: Any, backend: Optional[str], share: int, options: Mapping[str, Any]) -> Context:
    return open_model(source, backend, threads=share, **options)


def _another(first: Context, again: Callable[[], Context], made: int, workers: int) -> Context:
    """A further context: a duplicate where that is legal, else the model is opened again."""
    try:
        return again() if first.shapes else first.dup()
    except (OutOfMemory, MemoryError) as error:
        raise OutOfMemory(
            f"{made} of {workers} workers fit into memory; use workers={made}. ({error})"
        ) from None
    except RknnError:
        return again()


def _default_workers(soc: Soc, computes_here: bool) -> int:
    return max(1, min(soc.cores, processors())) if computes_here else soc.cores


def _check_memory(first: Context, workers: int, width: int) -> None:
    """Refuse workers that cannot fit, by what one context says it needs; ``width`` is bytes held per byte needed."""
    import psutil  # a slow import

    try:
        need = first.memory()
    except RknnError:
        return
    each = (need.total - (0 if first.shapes else need.weight)) * width
    free = psutil.virtual_memory().available
    if each > 0 and (workers - 1) * each > free:
        fits = 1 + free // each
        raise OutOfMemory(
            f"a pool of {workers} workers needs {each / 1e6:.1f} MB for each further worker and {free / 1e6:.0f} MB are free: "
            f"{fits} fit; use workers={fits}"
        )
