"""One conversation with a language model, as the face needs it: queue of runs, figures, streams."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent import futures
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import numpy as np

from .._faces.arguments import described
from .._faces.log import FaceLog
from ..errors import ContextInvalid, ParamInvalid, RunTimeout
from ..libraries import library
from ..spi.llm import InferParams, LlmCallbacks, LlmContext, LlmInput, LlmSession, RunSummary
from ..spi.one_thread import OneThread
from ._args import SessionArgs
from ._callbacks import CallbackAdapter
from ._code_name import code_name
from ._run_arguments import RunArguments

__all__ = ["RKNN3Session"]

Figures = list[Any]
"""``[n_decode_tokens, n_prefill_tokens, start, end]``; times are ``time.perf_counter`` seconds."""


class RKNN3Session:
    """A session of the core with the program's callbacks and defaults. Its methods raise.

    Examples:
        >>> rknn, tiny = RKNN3Lite(llm_mode=True), "examples/llm_chat/models/tiny"
        >>> rknn.load_rknn(f"{tiny}.rknn", f"{tiny}.weight"), rknn.init_runtime("rk1820", 0xFF)
        (0, 0)
        >>> rknn.init_llm_session({}, RKLLMCallback(), f"{tiny}.embed.bin")
        0
        >>> type(rknn.llm).__name__
        'RKNN3Session'
        >>> rknn.release()
    """

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
        self._runs = OneThread("rknn3lite-runs", daemon=True)
        self._last: Future[Figures] | None = None  # of the queued runs
        self._figures: Figures = []  # of the last queued run that went well
        self._closed = False

    # -- runs ---------------------------------------------------------------------------------------------

    def run(self, arguments: RunArguments, **changes: Any) -> Figures:
        """Run and wait; raises what a callback raised, or an RknnError."""
        return _figures(self.core.run(*self._prepared(arguments, changes)))

    def run_async(self, arguments: RunArguments, **changes: Any) -> Figures:
        """Queue a run; the figures of the beginning. Later runs wait for earlier ones."""
        self._adapter.refuse_inside("session_run_async")
        inputs, params = self._prepared(arguments, changes)
        now = time.perf_counter()
        if self._closed:
            raise ContextInvalid("the session is closed")
        self._last = self._runs.submit(self._run_queued, inputs, params)
        return [0, 0, now, now]

    def wait(self, timeout: float | None = None) -> Figures:
        """Wait for all queued runs: the figures of the last one. Raises its error, or RunTimeout."""
        self._adapter.refuse_inside("session_wait")
        last = self._last
        if last is not None:
            if not futures.wait([last], timeout).done:
                raise RunTimeout(f"runs are still going on after {timeout} s")
            self._last = None
            try:
                if not last.cancelled():  # by closing, which forgets runs
                    last.result()
            finally:
                del last  # its error would keep this frame, and the frame the future
        return self._figures

    def stream(
        self, arguments: RunArguments, decode: Callable[[Sequence[int]], str] | None, **changes: Any
    ) -> Iterator[str]:
        """Run and yield text; leaving the loop stops the run."""
        inputs, params = self._prepared(arguments, changes)
        yield from library("llm").stream(self.core, inputs, decode, params)

    def astream(
        self, arguments: RunArguments, decode: Callable[[Sequence[int]], str] | None, **changes: Any
    ) -> AsyncIterator[str]:
        """``stream`` for ``async for``."""
        inputs, params = self._prepared(arguments, changes)
        pieces: AsyncIterator[str] = library("llm").astream(self.core, inputs, decode, params)
        return pieces

    def _prepared(
        self, arguments: RunArguments, changes: dict[str, Any]
    ) -> tuple[list[LlmInput], InferParams]:
        wanted = {name: value for name, value in changes.items() if value is not None}
        if not isinstance(wanted.get("max_new_tokens", 1), (int, np.integer)):
            raise ParamInvalid(f"max_new_tokens is {described(wanted['max_new_tokens'])}, must be an int")
        return arguments.read(self._context.config), replace(self._infer, **wanted)

    def _run_queued(self, inputs: list[LlmInput], params: InferParams) -> Figures:
        try:
            self._figures = _figures(self.core.run(inputs, params))
            return self._figures
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
        self._closed = True
        self._runs.close(self.core.stop)
        self._last = None
        self.core.close()


def _figures(summary: RunSummary) -> Figures:
    return [summary.n_decode_tokens, summary.n_prefill_tokens, summary.start, summary.end]
