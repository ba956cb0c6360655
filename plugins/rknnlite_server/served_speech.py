"""A speech model of the server: one that writes down, or one that speaks."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any, Callable, Protocol, TypeVar

from rknnlite_speech.opening import open_speech
from rknnlite_speech.speaking import Speaker
from rknnlite_speech.transcribing import Transcriber

from .async_helpers import in_thread
from .errors import ApiError
from .queueing import Turnstile
from .settings import ServerSettings

__all__ = ["ServedSpeech", "speech_name"]


class Piece(Protocol):
    """Part of an answer."""

    @property
    def seconds(self) -> float:
        """Sound that it stands for."""


T = TypeVar("T", bound=Piece)


class ServedSpeech:
    """Opened in a thread of its own, used from the event loop; ``folder`` names it. Raises what ``open_speech`` raises."""

    def __init__(self, folder: str, settings: ServerSettings) -> None:
        device = {"device_id": settings.device_id} if settings.device_id else {}
        self.name = speech_name(folder)
        self.created = int(time.time())
        self.turnstile = Turnstile(1, settings.queue)
        self.ran: Callable[[float, float], None] = lambda sound, seconds: None
        """Told of each piece: seconds of sound, and those that it took."""
        self._model = open_speech(Path(folder), backend=settings.backend or None, **device)

    @property
    def transcriber(self) -> Transcriber:
        """The model; raises ApiError for one that speaks."""
        if not isinstance(self._model, Transcriber):
            raise ApiError(501, "not_supported_error", f"{self.name} speaks, it does not transcribe")
        return self._model

    @property
    def speaker(self) -> Speaker:
        """The model; raises ApiError for one that transcribes."""
        if not isinstance(self._model, Speaker):
            raise ApiError(501, "not_supported_error", f"{self.name} transcribes, it does not speak")
        return self._model

    async def pieces(self, make: Callable[[], Iterator[T]]) -> AsyncGenerator[T, None]:
        """What an iterator gives, each piece computed in a thread while the others wait for their turn."""
        async with self.turnstile.turn():
            iterator = await in_thread(make)
            nothing: Any = object()
            while True:
                begun = time.perf_counter()
                piece = await in_thread(next, iterator, nothing)
                if piece is nothing:
                    return
                self.ran(piece.seconds, time.perf_counter() - begun)
                yield piece

    @property
    def card(self) -> dict[str, Any]:
        """What the list of models says about it."""
        task = "transcription" if isinstance(self._model, Transcriber) else "speech"
        return {
            "id": self.name,
            "object": "model",
            "created": self.created,
            "owned_by": "rknn",
            "meta": {"task": task},
        }

    def close(self) -> None:
        """Release the networks; may be called again."""
        self._model.close()


def speech_name(folder: str) -> str:
    """What clients call the model in a folder."""
    return Path(folder).resolve().name
