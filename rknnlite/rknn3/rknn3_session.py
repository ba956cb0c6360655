"""One conversation with a language model, as the face needs it: queue of runs, figures, streams."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .._faces.log import FaceLog
from ..errors import ContextInvalid, ParamInvalid, RunTimeout
from ..llm.stream import astream, stream
from ..spi.llm import InferParams, LlmCallbacks, LlmContext, LlmInput, LlmSession, RunSummary
from ._args import SessionArgs
from ._callbacks import CallbackAdapter
from ._code_name import code_name
from ._run_arguments import RunArguments

__all__ = ["RKNN3Session"]

Figures = list[Any]
"""``[n_decode_tokens, n_prefill_tokens, start, end]``; times are ``time.perf_counter`` seconds."""


class RKNN3Session:
    """A session of the core with the program's callbacks and defaults. Its methods raise."""

    def __init__(
        self,
        context: LlmContext,
        args: SessionArgs,
        adapter: CallbackAdapter,
        callbacks: LlmCallbacks,
        log: FaceLog,
    ) -> None:
        """Open a session. ``callbacks`` are the adapter's, with what it leaves out filled in."""
        self._context = context
        self._adapter = adapter
        self._infer = args.infer
        self._log = log
        self.core: LlmSession = context.session(args.params, callbacks)
        self._queue = _Queue()

    # -- runs ---------------------------------------------------------------------------------------------

    def run(self, turn: RunArguments, **changes: Any) -> Figures:
        """Run and wait; raises what a callback raised, or an RknnError."""
        return _figures(self.core.run(*self._prepared(turn, changes)))

    def run_async(self, turn: RunArguments, **changes: Any) -> Figures:
        """Queue a run; the figures of the beginning. Later runs wait for earlier ones."""
        self._adapter.refuse_inside("session_run_async")
        inputs, params = self._prepared(turn, changes)
        now = time.perf_counter()
        self._queue.put(lambda: self._run_queued(inputs, params))
        return [0, 0, now, now]

    def wait(self, timeout: float | None = None) -> Figures:
        """Wait for all queued runs: the figures of the last one. Raises its error, or RunTimeout."""
        self._adapter.refuse_inside("session_wait")
        return self._queue.wait(timeout)

    def stream(
        self, turn: RunArguments, decode: Callable[[Sequence[int]], str], **changes: Any
    ) -> Iterator[str]:
        """Run and yield text; leaving the loop stops the run."""
        inputs, params = self._prepared(turn, changes)
        yield from stream(self.core, inputs, decode, params)

    def astream(
        self, turn: RunArguments, decode: Callable[[Sequence[int]], str], **changes: Any
    ) -> AsyncIterator[str]:
        """``stream`` for ``async for``."""
        inputs, params = self._prepared(turn, changes)
        return astream(self.core, inputs, decode, params)

    def _prepared(self, turn: RunArguments, changes: dict[str, Any]) -> tuple[list[LlmInput], InferParams]:
        wanted = {name: value for name, value in changes.items() if value is not None}
        if not isinstance(wanted.get("max_new_tokens", 1), (int, np.integer)):
            raise ParamInvalid(f"max_new_tokens is {wanted['max_new_tokens']!r:.80}, must be an int")
        return turn.read(self._context.config), replace(self._infer, **wanted)

    def _run_queued(self, inputs: list[LlmInput], params: InferParams) -> Figures:
        try:
            return _figures(self.core.run(inputs, params))
        except Exception as error:
            trace = error.__traceback__
            self._log.tell("Catch exception when running LLM model.", error, code_name(error))
            error.__traceback__ = trace  # the log drops what it has told
            del trace  # it holds this frame
            raise

    # -- life ---------------------------------------------------------------------------------------------

    def set_args(self, args: SessionArgs) -> None:
        """Replace the parameters of the session and the defaults of its runs."""
        self.core.set_llm_param(args.params)
        self._infer = args.infer

    def close(self) -> None:
        """Stop, forget queued runs, free the cache; no callback follows."""
        self._adapter.refuse_inside("release")
        self._queue.close(self.core.stop)
        self.core.close()


def _figures(summary: RunSummary) -> Figures:
    return [summary.n_decode_tokens, summary.n_prefill_tokens, summary.start, summary.end]


class _Queue:
    """Jobs that run one after another in a thread that lives as long as there are any."""

    def __init__(self) -> None:
        self._jobs: deque[Callable[[], Figures]] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._last: Figures = []
        self._error: BaseException | None = None

    def put(self, job: Callable[[], Figures]) -> None:
        """Add a job. Raises ContextInvalid after ``close``."""
        with self._changed:
            if self._closed:
                raise ContextInvalid("the session is closed")
            self._jobs.append(job)
            if self._thread is None:
                self._error = None
                self._thread = threading.Thread(target=self._loop, name="rknn3lite-runs", daemon=True)
                self._thread.start()

    def wait(self, timeout: float | None) -> Figures:
        """What the last job returned or raised, when all are done."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._thread is None, timeout):
                raise RunTimeout(f"runs are still going on after {timeout} s")
            error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback holds this frame
        return self._last

    def close(self, stop: Callable[[], None]) -> None:
        """Forget the jobs that wait, let the one under way stop, and wait for it."""
        with self._changed:
            thread = self._thread
            self._closed, self._error = True, None
            self._jobs.clear()
        while thread is not None and thread.is_alive():
            stop()
            thread.join(0.02)

    def _loop(self) -> None:
        while True:
            with self._changed:
                if not self._jobs:
                    self._thread = None
                    self._changed.notify_all()
                    return
                job = self._jobs.popleft()
            try:
                self._last, self._error = job(), None
            except BaseException as error:
                self._error = error
            del job  # it holds the session
