"""The shell of a session: whoever may not call it now is told so, for backends of any kind."""

from __future__ import annotations

import abc
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager

from rknnlite.errors import ContextInvalid, ParamInvalid
from rknnlite.spi.llm import CallState, KvClear, KvPolicy, LlmCallbacks, LlmResult, LlmSession, RunSummary
from rknnlite.spi.one_thread import OneThread

from .callbacks import CheckedCallbacks
from .engine import LlmEngine
from .template_budget import RenderStopped

__all__ = ["GuardedSession", "kv_clear", "kv_policy"]

_LOOK = 0.02  # seconds between attempts to get hold of a session that is to be closed


class GuardedSession(LlmSession):
    """Part of a backend's session: one call at a time, none from inside a callback, none after ``close``.

    Whoever holds ``_free`` uses the session. A backend's calls go under ``_using``, its runs are begun by ``_begin``
    and computed under ``_in_turn``.
    """

    def __init__(self, engine: LlmEngine, callbacks: LlmCallbacks, inside: set[int] | None = None) -> None:
        """Raises ParamInvalid for callbacks that do not fit the model.

        ``inside`` gets the numbers of the threads that callbacks come from; None: this session's alone count.
        """
        self._engine = engine
        self._inside: set[int] = set() if inside is None else inside
        self._free = threading.Lock()
        self._stop = threading.Event()
        self._closed = False
        self._thread = OneThread("rknnlite-llm", daemon=True)
        self.set_callbacks(callbacks)

    # -- callbacks ----------------------------------------------------------------------------------------

    @property
    def callbacks(self) -> LlmCallbacks:
        return self._calls.unchecked

    def set_callbacks(self, callbacks: LlmCallbacks) -> None:
        known = len(self._engine.outputs)
        if any(not 0 <= index < known for index in callbacks.outputs):
            raise ParamInvalid(
                f"output callback wants outputs {callbacks.outputs}, the model has 0..{known - 1}"
            )
        config = self._engine.config
        self._calls = CheckedCallbacks(callbacks, config.vocab_size, config.embedding_dim)

    # -- who may call -------------------------------------------------------------------------------------

    @property
    def _in_callback(self) -> bool:
        return threading.get_ident() in self._inside

    def _take(self, call: str) -> None:
        """Hold the session, or say why not."""
        if self._in_callback:
            raise ContextInvalid(
                f"{call} was called from inside a callback; there only stop and state are allowed"
            )
        if not self._free.acquire(False):
            raise ContextInvalid(
                f"{call}: the session is in use by another thread; wait for its run or stop it"
            )
        if self._closed:
            self._free.release()
            raise ContextInvalid(f"{call}: the session is closed; open another one")

    @contextmanager
    def _using(self, call: str) -> Iterator[None]:
        self._take(call)
        try:
            yield
        finally:
            self._free.release()

    # -- runs ---------------------------------------------------------------------------------------------

    def _begin(self, call: str, prepare: Callable[[], Callable[[], RunSummary]]) -> Future[RunSummary]:
        """Take the session and make what ``prepare`` returns run in a thread, which gives the session back.

        A future that is cancelled before its run begins gives it back, too.
        """
        self._take(call)
        future: Future[RunSummary] = Future()
        free = self._free
        future.add_done_callback(lambda done: free.release() if done.cancelled() else None)
        try:
            self._stop.clear()  # what ended an earlier run does not end the rendering of this one
            try:
                run = prepare()
            except RenderStopped:
                run = self._none
            try:
                return self._thread.submit(self._holding, run, future=future)
            except RuntimeError as error:
                raise ContextInvalid(f"no thread for the run: {error}") from None
        except BaseException:
            if not future.cancel():  # an interrupt, and the thread had begun
                self._stop_and_wait(future)
            raise

    def _holding(self, run: Callable[[], RunSummary]) -> RunSummary:
        try:
            return run()
        finally:
            self._free.release()

    def _none(self) -> RunSummary:
        """A run that was stopped while its prompt was made."""
        calls = self._calls.fresh()
        return self._in_turn(calls, lambda: self._stopped(calls))

    def _in_turn(self, calls: CheckedCallbacks, compute: Callable[[], RunSummary]) -> RunSummary:
        """Compute when no other session of the model does; the result callback learns of the end and of errors."""
        thread = threading.get_ident()
        try:
            with self._engine.one_run(self._stop.is_set) as mine:
                self._inside.add(thread)
                return compute() if mine else self._stopped(calls)
        except BaseException:
            calls.error()
            raise
        finally:
            self._inside.discard(thread)

    def _stopped(self, calls: CheckedCallbacks) -> RunSummary:
        """The end of a run that was stopped before it computed anything."""
        calls.result(LlmResult(), CallState.STOP)
        now = time.perf_counter()
        return RunSummary(CallState.STOP, 0, 0, now, now, now)

    def stop(self) -> None:
        self._stop.set()
        tokenizer = self.callbacks.tokenizer
        end = getattr(getattr(tokenizer, "__self__", tokenizer), "end_encoding", None)
        if end is not None:
            end(self._inside)

    def _stop_and_wait(self, future: Future[RunSummary]) -> None:
        self.stop()
        future.exception()

    # -- life ---------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def _release(self) -> None:
        """Give back what the session holds; nobody uses it any more. May be called again."""

    def close(self) -> None:
        if self._in_callback:
            raise ContextInvalid(
                "close was called from inside a callback; call stop, and close after the run"
            )
        held = self._free.acquire(False)
        while not held:
            self.stop()
            held = self._free.acquire(timeout=_LOOK)
        try:
            self._closed = True
            self._release()
        finally:
            self._free.release()
        self._thread.close()

    def abandon(self) -> None:
        """After a fork, in the child: the parent owns the session, and its threads are not here."""
        self._free = threading.Lock()
        self._closed = True


def kv_policy(policy: KvPolicy) -> KvPolicy:
    """The policy; raises ParamInvalid for what is none."""
    try:
        return KvPolicy(policy)
    except ValueError:
        raise ParamInvalid(f"KV cache policy {policy!r}; use KvPolicy") from None


def kv_clear(clear: KvClear) -> KvClear:
    """How much to clear; raises ParamInvalid for what is no word for it."""
    try:
        return KvClear(clear)
    except ValueError:
        raise ParamInvalid(f"clear_kvcache({clear!r}): use KvClear") from None
