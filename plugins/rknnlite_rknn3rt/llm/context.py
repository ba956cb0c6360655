"""A language model on a coprocessor: opened from its files, shared by sessions that run one after another."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from numpy.typing import NDArray
from rknnlite_backend.native_objects import abandon_after_fork
from rknnlite_llm.engine import EngineContext

from rknnlite.errors import ContextInvalid
from rknnlite.formats import ModelFile
from rknnlite.spi.llm import EmbedCallback, LlmCallbacks, LlmOptions, LlmParams

from ..device_memory import DeviceModel
from ..loader import Library
from ..native_context import NativeContext
from ..settings import Rknn3rtSettings
from .device_embedding import embed_by_session
from .engine import Rknn3Engine
from .lora import LoraAdapters
from .params import checked_params
from .session import Rknn3LlmSession

__all__ = ["Rknn3LlmContext"]


class Rknn3LlmContext(DeviceModel, LoraAdapters, EngineContext[Rknn3Engine, Rknn3LlmSession]):
    """See ``LlmContext``."""

    def __init__(
        self,
        library: Library,
        file: ModelFile,
        weights: ModelFile | None,
        settings: Rknn3rtSettings,
        options: LlmOptions,
    ) -> None:
        self._owner = threading.RLock()
        self._settings = settings
        self._kept: dict[str, list[Any]] = {}
        handle = NativeContext.open(library, settings, None)
        try:
            handle.load(file, weights, settings, options.core_mask)
            EngineContext.__init__(self, Rknn3Engine(handle, settings.native_async))
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

    # -- sessions -----------------------------------------------------------------------------------------

    def _new_session(
        self, params: LlmParams | Sequence[LlmParams], callbacks: LlmCallbacks
    ) -> Rknn3LlmSession:
        return Rknn3LlmSession(self._engine, checked_params(params, self.config), callbacks)

    def embed(self, texts: Sequence[Sequence[int]], embed: EmbedCallback) -> NDArray[Any]:
        return embed_by_session(self, texts, embed)

    # -- life ---------------------------------------------------------------------------------------------

    def close(self) -> None:
        if threading.get_ident() in self._engine.inside:
            raise ContextInvalid("close was called from inside a callback; close the model after the run")
        self._close_sessions()
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
