"""What the context of a language model and its sessions share, for backends of any kind."""

from __future__ import annotations

import abc
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Generic, TypeVar

from rknnlite.errors import ContextInvalid
from rknnlite.spi.llm import LlmCallbacks, LlmConfig, LlmContext, LlmParams, LlmSession
from rknnlite.tensor import TensorAttr

__all__ = ["EngineContext", "LlmEngine"]

_LOOK = 0.02  # seconds between looks at a stop request while another session runs
_PARAMS, _NO_CALLBACKS = LlmParams(), LlmCallbacks()


class LlmEngine(abc.ABC):
    """A loaded language model: what it says about itself, and whose session runs. It knows no sessions."""

    def __init__(self) -> None:
        self._running = threading.Lock()
        self._runner: int | None = None

    @property
    @abc.abstractmethod
    def config(self) -> LlmConfig:
        """See ``LlmContext.config``."""

    @property
    @abc.abstractmethod
    def inputs(self) -> list[TensorAttr]:
        """See ``LlmContext.inputs``."""

    @property
    @abc.abstractmethod
    def outputs(self) -> list[TensorAttr]:
        """See ``LlmContext.outputs``."""

    @abc.abstractmethod
    def check_open(self) -> None:
        """Raise ContextInvalid when the model is closed."""

    @contextmanager
    def one_run(self, stopping: Callable[[], bool]) -> Iterator[bool]:
        """Hold the model for a run, one session at a time; False when stopped while waiting for the others."""
        if self._runner == threading.get_ident():
            raise ContextInvalid(
                "a session was run from inside a callback of another session of the same model"
            )
        while not self._running.acquire(timeout=_LOOK):
            if stopping():
                yield False
                return
        self._runner = threading.get_ident()
        try:
            self.check_open()
            yield True
        finally:
            self._runner = None
            self._running.release()

    def abandon(self) -> None:
        """After a fork, in the child: whoever ran is not here."""
        self._running, self._runner = threading.Lock(), None


E = TypeVar("E", bound=LlmEngine)
S = TypeVar("S", bound=LlmSession)


class EngineContext(LlmContext, Generic[E, S]):
    """A context that leaves everything to its engine, and knows its sessions as long as somebody holds them."""

    def __init__(self, engine: E) -> None:
        self._engine = engine
        self._sessions: weakref.WeakSet[S] = weakref.WeakSet()

    @property
    def config(self) -> LlmConfig:
        return self._engine.config

    @property
    def inputs(self) -> list[TensorAttr]:
        return self._engine.inputs

    @property
    def outputs(self) -> list[TensorAttr]:
        return self._engine.outputs

    def session(
        self,
        params: LlmParams | Sequence[LlmParams] = _PARAMS,
        callbacks: LlmCallbacks = _NO_CALLBACKS,
    ) -> LlmSession:
        with self._held():
            self._engine.check_open()
            session = self._new_session(params, callbacks)
            self._sessions.add(session)
            return session

    def _held(self) -> AbstractContextManager[Any]:
        """Holds the model while a session is made, where another thread may not close it meanwhile."""
        return nullcontext()

    @abc.abstractmethod
    def _new_session(self, params: LlmParams | Sequence[LlmParams], callbacks: LlmCallbacks) -> S:
        """A session on the engine; raises ParamInvalid."""

    def _close_sessions(self) -> None:
        for session in list(self._sessions):
            session.close()
