"""The application: routes, keys, errors, and models that load behind it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import AsyncIterator, Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from rknnlite.errors import RknnError, shown
from rknnlite.extras import missing
from rknnlite.native.board import Board

from .access import Access
from .anthropic import anthropic_routes
from .anthropic_headers import RequestIds
from .app_state import Holding, State
from .chat import chat_completions
from .completions import completions
from .embeddings import embeddings
from .errors import ApiError, problem_of
from .jobs.batch_routes import batch_routes
from .jobs.figures import JobFigures
from .jobs.file_routes import file_routes
from .jobs.runner import run_batches
from .language_models.load_routes import load_routes
from .metrics import Counting, Metrics, metrics
from .model_routes import detokenize, health, models, one_model, tokenize
from .networks.figures import NetworkFigures
from .networks.rest import network_routes
from .ollama import ollama_routes
from .openapi import openapi
from .origins import Origins
from .page import page_routes
from .responses.routes import response_routes
from .served_model import ServedModel
from .served_speech import ServedSpeech
from .settings import ServerSettings
from .speech import speech
from .traced import TracedRequests
from .transcriptions import transcriptions, translations
from .vision.routes import vision_routes

__all__ = ["all_routes", "make_app", "openai_routes"]

logger = logging.getLogger("rknnlite.server")
_MOST_FAILURE = 800  # characters: the remedy comes last
StatusCallback = Callable[[str, str], None]


def openai_routes() -> list[BaseRoute]:
    """OpenAI's API and what the RKNN3 guide adds."""
    return [
        Route("/health", health),
        Route("/v1/health", health),
        Route("/models", models),
        Route("/v1/models", models),
        Route("/v1/models/{name:path}", one_model),
        Route("/v1/chat/completions", chat_completions, methods=["POST"]),
        Route("/chat/completions", chat_completions, methods=["POST"]),
        Route("/v1/completions", completions, methods=["POST"]),
        Route("/v1/embeddings", embeddings, methods=["POST"]),
        Route("/embeddings", embeddings, methods=["POST"]),
        Route("/v1/audio/transcriptions", transcriptions, methods=["POST"]),
        Route("/v1/audio/translations", translations, methods=["POST"]),
        Route("/v1/audio/speech", speech, methods=["POST"]),
        Route("/tokenize", tokenize, methods=["POST"]),
        Route("/detokenize", detokenize, methods=["POST"]),
    ]


def all_routes() -> list[BaseRoute]:
    """All APIs, figures, and a page to try them."""
    return [
        *network_routes(),  # first: they are looked through for every request
        *page_routes(),
        Route("/metrics", metrics),
        Route("/openapi.json", openapi),
        *load_routes(),
        *openai_routes(),
        *vision_routes(),
        *file_routes(),
        *batch_routes(),
        *response_routes(),
        *anthropic_routes(),
        *ollama_routes(),
    ]


def make_app(
    settings: ServerSettings,
    routes: list[BaseRoute] | None = None,
    on_status: StatusCallback = lambda status, text: None,
) -> Starlette:
    """An ASGI application that loads its models when it starts, and says 503 until they are there.

    ``on_status`` gets ``initialised``, ``error`` and ``exited``, each with a text. Raises BackendUnavailable
    when figures or gRPC are wanted and the package for them is missing.
    """
    state = State(settings)
    _add_rpc(state)
    routes = all_routes() if routes is None else routes
    if settings.metrics:
        state.metrics = Metrics(lambda: [*state.models.values(), *state.speech.values()])
        state.library.open.opened = functools.partial(_counted, state.metrics)
        state.metrics.add(NetworkFigures(lambda: state.repository.loaded, Board()))
        if state.jobs is not None:
            state.metrics.add(JobFigures(state.jobs))

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        if state.rpc is not None:
            await state.rpc.start()
        loading = asyncio.ensure_future(_load(state, on_status))
        expiring = asyncio.ensure_future(state.library.open.expire())
        batches = (
            asyncio.ensure_future(run_batches(app, state, state.jobs)) if state.jobs is not None else None
        )
        try:
            yield
        finally:
            state.stopping = True
            expiring.cancel()
            if batches is not None:
                batches.cancel()
                await asyncio.wait([batches])
            await asyncio.wait([loading, expiring])
            await state.end_rpc(settings.drain)
            await asyncio.to_thread(state.close)
            on_status("exited", "")

    middleware = [
        Middleware(RequestIds),
        Middleware(Origins, settings=settings),
        Middleware(Access, state=state),
        Middleware(Holding, state=state),
    ]
    if settings.cors:
        allowed = Middleware(
            CORSMiddleware, allow_origins=list(settings.cors), allow_methods=["*"], allow_headers=["*"]
        )
        middleware.insert(0, allowed)
    if state.metrics is not None:
        middleware.insert(0, Middleware(Counting, found=state.metrics, routes=routes))
    if state.traces is not None:
        middleware.insert(0, Middleware(TracedRequests, traces=state.traces, routes=routes))
    app = Starlette(
        routes=routes,
        middleware=middleware,
        exception_handlers={
            ApiError: _on_error,
            RknnError: _on_error,
            MemoryError: _on_error,
            HTTPException: _on_http,
            Exception: _on_fault,
        },  # type: ignore[dict-item]
        lifespan=lifespan,
    )
    app.state.rknnlite = state
    return app


def _add_rpc(state: State) -> None:
    """The gRPC server beside this one; none without networks, or where it is switched off."""
    settings = state.settings
    if not settings.serves_networks or settings.grpc_port < 0:
        return
    try:
        from .networks.rpc import Rpc
    except ImportError as error:
        problem = missing("server", "gRPC cannot be served (--grpc-port -1 does without)", error)
        if settings.grpc_needed:
            raise problem from None
        state.no_rpc = str(problem)
        return
    state.rpc = Rpc(state)


def _counted(metrics: Metrics, model: ServedModel) -> None:
    model.ran = functools.partial(metrics.ran, model.name)


async def _load(state: State, on_status: StatusCallback) -> None:
    what = ""
    try:
        for settings in state.settings.models:
            if state.stopping:
                return
            what = settings.model
            state.library.add(await asyncio.to_thread(ServedModel, settings, state.settings))
        for folder in state.settings.speech:
            if state.stopping:
                return
            what = folder
            spoken = await asyncio.to_thread(ServedSpeech, folder, state.settings)
            if state.metrics is not None:
                spoken.ran = functools.partial(state.metrics.sounded, spoken.name)
            state.speech[spoken.name] = spoken
        what = ""
        await state.repository.load_at_start()
    except Exception as error:  # the server goes on and says why it serves nothing
        reason = shown(error, _MOST_FAILURE)
        named = f"{what}: " if what and what not in reason else ""
        state.failure = f"the model could not be loaded: {named}{reason}"
        logger.error("%s", state.failure)
        on_status("error", state.failure)
        return
    if state.stopping:
        return
    state.ready = True
    networks = (network.name for network in state.repository.loaded)
    folder = [f"language models of {state.library.folder}"] if state.library.folder else []
    on_status("initialised", ", ".join([*state.models, *state.speech, *networks, *folder]))


async def _on_error(request: Request, error: Exception) -> Response:
    problem = problem_of(error, request.url.path)
    if problem.status >= 500 and not isinstance(error, ApiError):
        logger.error("%s %s: %s", request.method, request.url.path, error, exc_info=error)
    return JSONResponse(problem.body_for(request.url.path, request.headers), problem.status, problem.headers)


async def _on_fault(request: Request, error: Exception) -> Response:
    # Starlette raises the error again behind this answer and uvicorn then closes the connection: say so,
    # or a client that keeps connections sends its next request into the closing one.
    response = await _on_error(request, error)
    response.headers["connection"] = "close"
    return response


async def _on_http(request: Request, error: HTTPException) -> Response:
    kind = "not_found_error" if error.status_code == 404 else "invalid_request_error"
    message = f"{request.method} {request.url.path}: {error.detail}"
    problem = ApiError(error.status_code, kind, message)
    return JSONResponse(problem.body_for(request.url.path, request.headers), error.status_code, error.headers)
