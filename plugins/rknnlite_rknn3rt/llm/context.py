"""A language model on a coprocessor: weights shared by sessions that run one after another."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from rknnlite.abi.rknn3_enums import RKNN3QueryCmd as Query
from rknnlite.errors import ContextInvalid
from rknnlite.formats import ModelFile
from rknnlite.native.objects import abandon_after_fork
from rknnlite.spi.llm import LlmCallbacks, LlmConfig, LlmContext, LlmOptions, LlmParams, LlmSession
from rknnlite.tensor import TensorAttr

from ..attrs import tensors
from ..device_memory import DeviceModel
from ..loader import Library
from ..native_context import NativeContext
from ..settings import Settings
from .lora import LoraAdapters
from .params import checked_params, read_config
from .session import Rknn3LlmSession

__all__ = ["Rknn3LlmContext"]

_PARAMS, _NO_CALLBACKS = LlmParams(), LlmCallbacks()
_LOOK = 0.02  # seconds between looks at a stop request while another session runs
_FORKED = "the model was opened before a fork and belongs to the parent process; open it in the child"


class Rknn3LlmContext(DeviceModel, LoraAdapters, LlmContext):
    """See ``LlmContext``; ``inside`` are the threads that are in a callback of one of its sessions."""

    def __init__(
        self,
        library: Library,
        file: ModelFile,
        weights: ModelFile | None,
        settings: Settings,
        options: LlmOptions,
    ) -> None:
        self._owner = threading.RLock()
        self._settings = settings
        self._kept: dict[str, list[Any]] = {}
        self._sessions: weakref.WeakSet[Rknn3LlmSession] = weakref.WeakSet()
        self._turn = threading.Lock()
        self._reason = "the model is closed; open it again"
        self.inside: set[int] = set()
        handle = NativeContext.open(library, settings, None)
        self._handle: NativeContext | None = handle
        try:
            handle.load(file, weights, settings, options.core_mask)
            self._config = read_config(handle)
            n_in, n_out = handle.in_out_num()
            self.input_tensors = tensors(handle, Query.RKNN3_QUERY_INPUT_ATTR, n_in, True)
            self.output_tensors = tensors(handle, Query.RKNN3_QUERY_OUTPUT_ATTR, n_out, False)
        except BaseException:
            self._handle = None
            handle.native.release()
            raise
        abandon_after_fork(self)

    # -- what device memory needs -------------------------------------------------------------------------

    def need(self) -> NativeContext:
        """The context of the C API; raises ContextInvalid after ``close``."""
        if self._handle is None:
            raise ContextInvalid(self._reason)
        return self._handle

    def _need(self) -> NativeContext:
        return self.need()

    def _held(self) -> AbstractContextManager[Any]:
        return self._owner

    @property
    def _guard(self) -> Any:
        return None

    @property
    def _given(self) -> dict[str, list[Any]]:
        return self._kept

    @property
    def user_internal(self) -> bool:
        return self._settings.user_internal

    @property
    def native_async(self) -> bool:
        """Whether runs go through the library's own asynchronous call."""
        return self._settings.native_async

    # -- what it is ---------------------------------------------------------------------------------------

    @property
    def config(self) -> LlmConfig:
        return self._config

    @property
    def inputs(self) -> list[TensorAttr]:
        return [tensor.native for tensor in self.input_tensors]

    @property
    def outputs(self) -> list[TensorAttr]:
        return [tensor.native for tensor in self.output_tensors]

    # -- sessions -----------------------------------------------------------------------------------------

    def session(
        self,
        params: LlmParams | Sequence[LlmParams] = _PARAMS,
        callbacks: LlmCallbacks = _NO_CALLBACKS,
    ) -> LlmSession:
        with self._owner:
            self.need()
            session = Rknn3LlmSession(self, checked_params(params, self._config), callbacks)
            self._sessions.add(session)
            return session

    @contextmanager
    def turn(self, stopping: Callable[[], bool]) -> Iterator[bool]:
        """One session at a time, as the coprocessor wants it; False when it was stopped while it waited."""
        mine = self._turn.acquire(False)
        while not mine and not stopping():
            mine = self._turn.acquire(timeout=_LOOK)
        try:
            if mine:
                self.need()
            yield mine
        finally:
            if mine:
                self._turn.release()

    # -- life ---------------------------------------------------------------------------------------------

    def close(self) -> None:
        if threading.get_ident() in self.inside:
            raise ContextInvalid("close was called from inside a callback; close the model after the run")
        for session in list(self._sessions):
            session.close()
        with self._owner:
            self._kept.clear()
            self._handle = None

    def abandon(self) -> None:
        """After a fork, in the child: the parent owns the model."""
        self._owner, self._turn = threading.RLock(), threading.Lock()
        for session in list(self._sessions):
            session.abandon()
        self._sessions = weakref.WeakSet()
        self._handle, self._reason = None, _FORKED
