"""Pictures from a source through a network to a sink, in their order, on all workers of a pool."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Optional

import rknnlite
from rknnlite.errors import ParamInvalid, RknnError
from rknnlite.spi import Context

from .figures import Figures, Report
from .reader import Numbered, Reader
from .stages import in_stage

__all__ = ["Pipeline"]


class Pipeline:
    """``sink(picture, result)`` for each picture of ``source``, in their order, in the thread that calls ``run``.

    Args:
        source: pictures. Its ``close``, where it has one, is called at the end, by the thread that reads it. Where ``live``
            of it is true (a camera) it is never made to wait: if the network is slower, the oldest waiting picture is dropped.
        model: the network's contexts; its owner closes it.
        decode: makes a result of ``(outputs, picture)``, in the worker, beside the NPU.
        sink: what gets ``(picture, result)``.
        run: makes outputs of ``(context, picture)``, in the worker; ``context.infer(picture)`` by default.
        queue: pictures that may wait for a worker.
        stall: seconds that the source may take for a picture.

    Examples:
        >>> frames = [np.full((1, 224, 224, 3), n, np.uint8) for n in range(4)]
        >>> best = []
        >>> with rknnlite.Pool("examples/resnet18/resnet18_for_RK3588.rknn", workers=2) as pool:
        ...     report = Pipeline(frames, pool, lambda outputs, _: outputs[0].argmax(), lambda _, n: best.append(n)).run()
        >>> report.pictures, report.dropped, len(best)
        (4, 0, 4)
    """

    def __init__(
        self,
        source: Iterable[Any],
        model: rknnlite.Pool,
        decode: Callable[[Any, Any], Any],
        sink: Callable[[Any, Any], object],
        *,
        run: Optional[Callable[[Context, Any], Any]] = None,
        queue: int = 4,
        stall: float = 10.0,
    ) -> None:
        if queue < 1 or not stall > 0:
            raise ParamInvalid(f"queue must be at least 1 and stall above 0, not {queue} and {stall}")
        self._pool, self._decode, self._sink = model, decode, sink
        self._run = run or (lambda context, picture: context.infer(picture))
        self._figures = Figures()
        self._reader = Reader(source, queue, stall, self._figures)
        self._free = threading.Semaphore(model.workers * (1 if self._reader.live else 2))
        self._begun: SimpleQueue[Optional[tuple[Numbered, Future[Any]]]] = SimpleQueue()  # None: the end
        self._stopped = False
        self._problem: Optional[RknnError] = None

    @property
    def report(self) -> Report:
        """Pictures, drops and times so far; also after Ctrl-C, and from other threads."""
        return self._figures.report()

    def stop(self) -> None:
        """End ``run``, from any thread or from the sink; pictures under way are given up."""
        self._stopped = True
        self._reader.stop()
        self._free.release()
        self._begun.put(None)

    def run(self) -> Report:
        """Until the source ends, somebody calls ``stop``, or an exception, Ctrl-C among them. To be called once.

        Raises:
            RunTimeout: the source stalls; its thread ends as soon as the source answers. No other outlives this call.
            RknnError: of a stage, with its name and the picture's number; PipelineFailed for errors of others.
        """
        feeder = threading.Thread(target=self._feed, name="rknnlite-pipeline-feeder", daemon=True)
        self._reader.start()
        feeder.start()
        try:
            while (item := self._begun.get()) is not None and not self._stopped:
                self._finish(*item)
            if self._problem is not None and not self._stopped:
                raise self._problem
        finally:
            self.stop()
            feeder.join()
            self._reader.join()
            while not self._begun.empty():
                if (item := self._begun.get()) is not None:
                    item[1].cancel()
        return self.report

    def _finish(self, picture: Numbered, future: Future[Any]) -> None:
        """The oldest picture under way, to its end."""
        result, *moments = in_stage("model", picture.number, future.result)
        moments.append(time.perf_counter())
        in_stage("sink", picture.number, self._sink, picture.value, result)
        self._figures.finished((picture.read, *moments, time.perf_counter()))
        self._free.release()

    def _feed(self) -> None:
        """The thread that gives pictures to workers."""
        try:
            while self._free.acquire() and not self._stopped:
                picture = self._reader.take()
                if picture is None:
                    break
                future = in_stage("model", picture.number, self._pool.call, self._work, picture)
                self._begun.put((picture, future))
        except RknnError as error:  # of the source; or the pool is closed, or has no worker left
            self._problem = error
        self._begun.put(None)

    def _work(self, context: Context, picture: Numbered) -> tuple[Any, float, float, float]:
        """In a worker: the result, and when it was begun, run and decoded."""
        start = time.perf_counter()
        outputs = in_stage("model", picture.number, self._run, context, picture.value)
        ran = time.perf_counter()
        result = in_stage("decode", picture.number, self._decode, outputs, picture.value)
        return result, start, ran, time.perf_counter()
