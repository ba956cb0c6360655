"""What all routes share: settings, models, and how to find the one that a request names."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from typing import Any, Optional

from starlette.requests import Request

from .errors import ApiError
from .metrics import Metrics
from .networks.repository import Repository
from .request_body import Body, read_json
from .served_model import ServedModel
from .served_speech import ServedSpeech
from .settings import ServerSettings

__all__ = ["State", "served", "served_speech", "state_of"]


class State:
    """Of one application. ``models`` is empty until they are loaded; ``failure`` says why they never will be."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.models: dict[str, ServedModel] = {}
        self.speech: dict[str, ServedSpeech] = {}
        self.ready = False
        self.stopping = False
        self.failure = ""
        self.metrics: Optional[Metrics] = None
        self.rpc: Any = None
        self.no_rpc = ""  # why there is none, where one was to be
        self.repository: Repository = Repository(settings)

    async def json(self, request: Request) -> Body:
        """The body of a request, within the limits."""
        return await read_json(request, self.settings.max_body)

    def allows(self, authorization: str) -> bool:
        """Whether a request's key is one of ours; takes the same time for each. Headers are bytes, read as Latin-1."""
        keys = self.settings.api_keys
        if not keys:
            return True
        scheme, _, key = authorization.partition(" ")
        given = key.strip().encode("latin-1") if scheme.lower() == "bearer" else b""
        return bool(sum(hmac.compare_digest(given, known.encode()) for known in keys))

    def check_ready(self) -> None:
        """Raise ApiError while models are being loaded, after that failed, and while the server stops."""
        if self.failure:
            raise ApiError(503, "unavailable_error", self.failure)
        if self.stopping:
            raise ApiError(503, "unavailable_error", "the server is stopping", retry_after=5)
        if not self.ready:
            raise ApiError(503, "unavailable_error", "Loading model", retry_after=1)

    def end_runs(self) -> None:
        """Stop all runs; those who wait for them are told that the server is stopping."""
        self.stopping = True
        for model in list(self.models.values()):
            model.pool.close()

    async def end_rpc(self, grace: float) -> None:
        """Let calls of gRPC end, after ``grace`` seconds at the latest."""
        if self.rpc is not None:
            await self.rpc.stop(grace)

    def close(self) -> None:
        """Close all models; may be called again."""
        models, self.models = self.models, {}
        for model in models.values():
            model.close()
        speech, self.speech = self.speech, {}
        for spoken in speech.values():
            spoken.close()
        self.repository.close()


def state_of(request: Request) -> State:
    """The state of the application that a request came to."""
    state: Any = request.app.state.rknnlite
    assert isinstance(state, State)
    return state


def served(request: Request, name: str) -> ServedModel:
    """The model of that name, the only one where none is named. Raises ApiError."""
    state = state_of(request)
    state.check_ready()
    if not name and len(state.models) == 1:
        return next(iter(state.models.values()))
    model = state.models.get(name)
    if model is not None:
        return model
    raise _unknown(name, state.models)


def served_speech(request: Request, name: str) -> ServedSpeech:
    """The speech model of that name, the only one where none is named. Raises ApiError."""
    state = state_of(request)
    state.check_ready()
    if not name and len(state.speech) == 1:
        return next(iter(state.speech.values()))
    model = state.speech.get(name)
    if model is None:
        raise _unknown(name, state.speech)
    return model


def _unknown(name: str, there: Iterable[str]) -> ApiError:
    known = ", ".join(there) or "none"
    return ApiError(
        404,
        "invalid_request_error",
        f"The model {name[:200]!r} does not exist here; there is {known}",
        "model",
        "model_not_found",
    )
