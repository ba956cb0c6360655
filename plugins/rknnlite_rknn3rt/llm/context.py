"""A language model on a coprocessor: opened from its files, shared by sessions that run one after another."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from rknnlite.errors import ContextInvalid
from rknnlite.formats import ModelFile
from rknnlite.native.objects import abandon_after_fork
from rknnlite.spi.llm import LlmCallbacks, LlmConfig, LlmContext, LlmOptions, LlmParams, LlmSession
from rknnlite.tensor import TensorAttr

from ..device_memory import DeviceModel
from ..loader import Library
from ..native_context import NativeContext
from ..settings import Settings
from .engine import Rknn3Engine
from .lora import LoraAdapters
from .params import checked_params
from .session import Rknn3LlmSession

__all__ = ["Rknn3LlmContext"]

_PARAMS, _NO_CALLBACKS = LlmParams(), LlmCallbacks()


class Rknn3LlmContext(DeviceModel, LoraAdapters, LlmContext):
    """See ``LlmContext``."""

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
        handle = NativeContext.open(library, settings, None)
        try:
            handle.load(file, weights, settings, options.core_mask)
            self._engine = Rknn3Engine(handle, settings.native_async)
        except BaseException:
            handle.native.release()
            raise
        abandon_after_fork(self)

    # -- what device memory needs -------------------------------------------------------------------------

    def _need(self) -> NativeContext:
        return self._engine.need()

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

    # -- what it is ---------------------------------------------------------------------------------------

    @property
    def config(self) -> LlmConfig:
        return self._engine.config

    @property
    def inputs(self) -> list[TensorAttr]:
        return self._engine.inputs

    @property
    def outputs(self) -> list[TensorAttr]:
        return self._engine.outputs

    # -- sessions -----------------------------------------------------------------------------------------

    def session(
        self,
        params: LlmParams | Sequence[LlmParams] = _PARAMS,
        callbacks: LlmCallbacks = _NO_CALLBACKS,
    ) -> LlmSession:
        with self._owner:
            self._engine.check_open()
            session = Rknn3LlmSession(self._engine, checked_params(params, self.config), callbacks)
            self._sessions.add(session)
            return session

    # -- life ---------------------------------------------------------------------------------------------

    def close(self) -> None:
        if threading.get_ident() in self._engine.inside:
            raise ContextInvalid("close was called from inside a callback; close the model after the run")
        for session in list(self._sessions):
            session.close()
        with self._owner:
            self._kept.clear()
            self._engine.close()

    def abandon(self) -> None:
        """After a fork, in the child: the parent owns the model."""
        self._owner = threading.RLock()
        for session in list(self._sessions):
            session.abandon()
        self._sessions = weakref.WeakSet()
        self._engine.abandon()
