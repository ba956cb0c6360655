"""A ``.rkllm`` file that was looked at, whose sessions load it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray
from rknnlite_backend.native_objects import abandon_after_fork
from rknnlite_llm.engine import EngineContext

from rknnlite.errors import ContextInvalid, ModelUnsupported
from rknnlite.formats import ModelFile
from rknnlite.native.board import Board
from rknnlite.spi.llm import EmbedCallback, KvPolicy, LlmCallbacks, LlmParams, LlmTraits
from rknnlite.spi.types import Versions

from .engine import RkllmEngine
from .identify import Identity
from .session import RkllmSession
from .settings import RkllmSettings
from .structs import one_of

__all__ = ["RkllmContext"]


class RkllmContext(EngineContext[RkllmEngine, RkllmSession]):
    """See ``LlmContext``. The library loads the model when a session is opened: a handle is a session."""

    backend_name = "rkllm"

    def __init__(self, identity: Identity, file: ModelFile, settings: RkllmSettings, board: Board) -> None:
        super().__init__(RkllmEngine(identity, file, settings, board))
        self._driver = board.driver().value or "unknown"
        abandon_after_fork(self)

    @property
    def traits(self) -> LlmTraits:
        return LlmTraits(
            own_embeddings=True,
            own_text=True,
            host_sampling=False,
            media_beside_tokens=False,
            sessions=self._engine.settings.sessions,
            kvcache_policies=(KvPolicy.DEFAULT, KvPolicy.RECURRENT),
            tokens=self._engine.identity.abi.RKLLMInput is not None,
            endless=self._engine.identity.abi.has_field("RKLLMParam", "ignore_eos_token"),
            separate_processes=not self._engine.settings.in_process,
        )

    @property
    def versions(self) -> Versions:
        return Versions(self._engine.version, self._driver, "librkllmrt")

    @property
    def model_facts(self) -> dict[str, str]:
        """What the library printed of the model when it was loaded last: toolkit, context, cores, soc, dtype."""
        return dict(self._engine.model_facts)

    def embed(self, texts: Sequence[Sequence[int]], embed: EmbedCallback) -> NDArray[Any]:
        raise ModelUnsupported(
            f"{self._engine.file.path}: a .rkllm file does not tell how hidden states become one embedding; a session hands "
            "them over (output callback, outputs=(1,)), and who knows the model can take the last row, or their mean"
        )

    def _new_session(self, params: LlmParams | Sequence[LlmParams], callbacks: LlmCallbacks) -> RkllmSession:
        return RkllmSession(self._engine, one_of(params), callbacks)

    def close(self) -> None:
        if threading.get_ident() in self._engine.inside:
            raise ContextInvalid("close was called from inside a callback; close the model after the run")
        self._engine.close()
        self._close_sessions()

    def abandon(self) -> None:
        """After a fork, in the child: the parent owns the model."""
        for session in list(self._sessions):
            session.abandon()
        self._sessions.clear()
        self._engine.abandon()
