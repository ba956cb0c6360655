"""What all routes share: settings, models, and how to find the one that a request names."""

from __future__ import annotations

from typing import Any, Optional

from rknnlite_protocol.traces import Traces
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from .audit import Audit
from .errors import ApiError, unknown_model
from .jobs.job_store import JobStore
from .keys import Keyring
from .language_models.library import Library
from .language_models.model_entry import ModelEntry, Taken
from .metrics import Metrics
from .networks.repository import Repository
from .request_body import Body, read_json
from .responses.stored_responses import StoredResponses
from .served_model import ServedModel
from .served_speech import ServedSpeech
from .settings import ServerSettings
from .streaming import while_connected

__all__ = ["Holding", "State", "hold", "served", "served_speech", "state_of", "taken"]

_HELD = "rknnlite.held"
"""Of a request's scope: the models that it has taken."""


class State:
    """Of one application. ``models`` is empty until they are loaded; ``failure`` says why they never will be."""

    def __init__(self, settings: ServerSettings) -> None:
        """Raises ParamInvalid for unusable files of keys and audit, and an unusable folder of batches; BackendUnavailable."""
        self.settings = settings
        self.keyring = Keyring(settings.api_keys, settings.api_key_file)
        self.audit = Audit(settings.audit_file)
        self.models: dict[str, ServedModel] = {}
        self.library = Library(settings, self.models)
        self.speech: dict[str, ServedSpeech] = {}
        self.ready = False
        self.stopping = False
        self.failure = ""
        self.metrics: Optional[Metrics] = None
        self.traces: Optional[Traces] = Traces(settings.traces) if settings.traces is not None else None
        self.jobs: Optional[JobStore] = (
            JobStore(settings.batch_dir, settings.batch_bytes, settings.batch_days)
            if settings.batch_dir
            else None
        )
        self.rpc: Any = None
        self.no_rpc = ""  # why there is none, where one was to be
        self.repository: Repository = Repository(settings)
        self.responses = StoredResponses(settings.response_bytes)

    async def json(self, request: Request) -> Body:
        """The body of a request, within the limits."""
        return await read_json(request, self.settings.max_body)

    def allows(self, authorization: str) -> bool:
        """Whether a request with this header ``Authorization`` is let in."""
        return self.keyring.open or self.keyring.account(authorization) is not None

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
        self.library.open.end_runs()

    async def end_rpc(self, grace: float) -> None:
        """Let calls of gRPC end, after ``grace`` seconds at the latest."""
        if self.rpc is not None:
            await self.rpc.stop(grace)

    def close(self) -> None:
        """Close all models; may be called again."""
        self.library.close()
        speech, self.speech = self.speech, {}
        for spoken in speech.values():
            spoken.close()
        self.repository.close()
        if self.jobs is not None:
            self.jobs.close()
        traces, self.traces = self.traces, None
        if traces is not None:
            traces.close()


def state_of(request: Request) -> State:
    """The state of the application that a request came to."""
    state: Any = request.app.state.rknnlite
    assert isinstance(state, State)
    return state


async def served(request: Request, name: str) -> ServedModel:
    """The model of that name, the only one where none is named; it is open until the answer is sent. Raises ApiError."""
    state = state_of(request)
    state.check_ready()
    entry = await state.library.find(name)
    return hold(request, await taken(request, entry)).model


def served_speech(request: Request, name: str) -> ServedSpeech:
    """The speech model of that name, the only one where none is named. Raises ApiError."""
    state = state_of(request)
    state.check_ready()
    if not name and len(state.speech) == 1:
        return next(iter(state.speech.values()))
    model = state.speech.get(name)
    if model is None:
        raise unknown_model(name, state.speech)
    return model


async def taken(request: Request, entry: ModelEntry) -> Taken:
    """A model for a request, which may wait for it to be opened as long as its client does. Raises ApiError."""
    entering = state_of(request).library.enter(entry)
    return await (entering if entry.place.model is not None else while_connected(request, entering))


def hold(request: Request, found: Taken) -> Taken:
    """Give a model that was taken back when the answer to this request is sent, or its client is gone."""
    request.scope[_HELD].append(found)
    return found


class Holding:
    """ASGI middleware: models that a request has taken are its own as long as anything of the answer is made."""

    def __init__(self, app: ASGIApp, state: State) -> None:
        self._app, self._state = app, state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        held: list[Taken] = []
        scope[_HELD] = held
        try:
            await self._app(scope, receive, send)
        finally:
            for found in held:
                self._state.library.open.give(found)
