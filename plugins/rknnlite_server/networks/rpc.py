"""The Open Inference Protocol over gRPC, in the event loop of the HTTP server."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, NoReturn

import grpc

from rknnlite.errors import BackendUnavailable, ParamInvalid, RknnError
from rknnlite.protocol.messages import BOARD, HEALTH, INFERENCE, methods
from rknnlite.protocol.problems import CODE_KEY, ERROR_KEY, RETRY_KEY, status_of

from ..closing import closing
from ..errors import ApiError, as_api_error
from ..state import State
from .board_rpc import board_calls
from .inference_rpc import health_calls, inference_calls
from .rpc_counting import CountedCalls

__all__ = ["Rpc", "outcome"]

logger = logging.getLogger("rknnlite.server")
_OPEN = frozenset(
    {f"/{HEALTH}/Check", f"/{HEALTH}/Watch", f"/{INFERENCE}/ServerLive", f"/{INFERENCE}/ServerReady"}
)
_CODES = {
    400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
    413: "RESOURCE_EXHAUSTED", 429: "RESOURCE_EXHAUSTED", 501: "UNIMPLEMENTED", 503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}  # fmt: skip
Handler = Callable[[Any, Any], Any]


class Rpc:
    """The gRPC server of an application; ``start`` and ``stop`` in its event loop."""

    def __init__(self, state: State) -> None:
        self.state, self.port = state, state.settings.grpc_port
        self._server: Any = None

    async def start(self) -> None:
        """Raises BackendUnavailable where the port is taken, ParamInvalid for an unusable certificate."""
        settings = self.state.settings
        size = settings.max_body + (1 << 16)
        self._server = server = grpc.aio.server(
            interceptors=[*self._counting(), _Keys(self.state)],
            options=[
                ("grpc.max_receive_message_length", size),
                ("grpc.max_send_message_length", -1),
                ("grpc.so_reuseport", 0),
                ("grpc.max_concurrent_streams", 1024),
                ("grpc.keepalive_time_ms", 60_000),
                ("grpc.keepalive_timeout_ms", 20_000),
                ("grpc.keepalive_permit_without_calls", 1),
                ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
            ],
        )
        for service, answers in self._services().items():
            server.add_generic_rpc_handlers((_handlers(service, answers),))
        address = f"[{settings.host}]:{self.port}" if ":" in settings.host else f"{settings.host}:{self.port}"
        try:
            if settings.tls_cert:
                self.port = server.add_secure_port(address, _credentials(settings.tls_cert, settings.tls_key))
            else:
                self.port = server.add_insecure_port(address)
        except RuntimeError as error:
            raise _taken(address, error) from None
        if not self.port:
            raise _taken(address, "the address cannot be used")
        await server.start()

    async def stop(self, grace: float) -> None:
        """Take no more calls, and end those under way after ``grace`` seconds; may be called again."""
        if self._server is not None:
            await self._server.stop(grace)

    def _counting(self) -> list[Any]:
        if self.state.metrics is None:
            return []
        services = self._services()
        paths = [methods(service)[name].path for service, answers in services.items() for name in answers]
        return [CountedCalls(self.state.metrics, paths)]

    def _services(self) -> dict[str, dict[str, Handler]]:
        return {
            INFERENCE: inference_calls(self.state),
            BOARD: board_calls(self.state),
            HEALTH: health_calls(self.state),
        }


class _Keys(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Lets calls with a key through, before their messages are read."""

    def __init__(self, state: State) -> None:
        self._state = state

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        if details.method in _OPEN:
            return await continuation(details)
        given = dict(details.invocation_metadata or ()).get("authorization", "")
        if self._state.allows(given if isinstance(given, str) else ""):
            return await continuation(details)
        return grpc.stream_stream_rpc_method_handler(_no_key)  # for all kinds: it waits for no message


async def _no_key(requests: Any, context: Any) -> NoReturn:
    await context.abort(grpc.StatusCode.UNAUTHENTICATED, "Invalid API Key")
    raise AssertionError


def _handlers(service: str, answers: dict[str, Handler]) -> Any:
    """The calls of a service that are answered; others are UNIMPLEMENTED by gRPC itself."""
    made = {}
    for name, method in methods(service).items():
        if name not in answers:
            continue
        kind = ("stream" if method.requests_stream else "unary") + (
            "_stream" if method.responses_stream else "_unary"
        )
        wrap = _guarded_stream if method.responses_stream else _guarded
        made[name] = getattr(grpc, f"{kind}_rpc_method_handler")(
            wrap(answers[name]),
            request_deserializer=method.request.FromString,
            response_serializer=method.response.SerializeToString,
        )
    return grpc.method_handlers_generic_handler(service, made)


def _guarded(answer: Handler) -> Handler:
    async def call(request: Any, context: Any) -> Any:
        try:
            return await answer(request, context)
        except (ApiError, RknnError) as error:
            await _abort(context, error)
        except grpc.aio.AbortError:
            raise
        except Exception as error:
            logger.error("gRPC: %s", error, exc_info=error)
            await _abort(context, error)

    return call


def _guarded_stream(answer: Handler) -> Handler:
    async def call(request: Any, context: Any) -> AsyncIterator[Any]:
        try:
            async with closing(answer(request, context)) as answers:
                async for found in answers:
                    yield found
        except (ApiError, RknnError) as error:
            await _abort(context, error)
        except grpc.aio.AbortError:
            raise
        except Exception as error:
            logger.error("gRPC: %s", error, exc_info=error)
            await _abort(context, error)

    return call


async def _abort(context: Any, error: Exception) -> NoReturn:
    code, text, metadata = outcome(error)
    await context.abort(code, text, metadata)
    raise AssertionError


def outcome(error: Exception) -> tuple[Any, str, tuple[tuple[str, str], ...]]:
    """Status, text and trailing metadata of an error."""
    if isinstance(error, RknnError):
        metadata = ((ERROR_KEY, type(error).__name__), (CODE_KEY, str(error.code)))
        return getattr(grpc.StatusCode, status_of(error).grpc), str(error), metadata
    problem = as_api_error(error)
    full = problem.status == 503 and problem.kind == "rate_limit_error"
    name = "RESOURCE_EXHAUSTED" if full else _CODES.get(problem.status, "INTERNAL")
    wait = problem.headers.get("Retry-After")
    return getattr(grpc.StatusCode, name), problem.message, ((RETRY_KEY, wait),) if wait else ()


def _credentials(certificate: str, key: str) -> Any:
    try:
        pair = (Path(key).read_bytes(), Path(certificate).read_bytes())
        return grpc.ssl_server_credentials([pair])
    except (OSError, ValueError) as error:
        raise ParamInvalid(
            f"the certificate {certificate} or its key {key} cannot be used: {error}"
        ) from None


def _taken(address: str, error: object) -> BackendUnavailable:
    return BackendUnavailable(
        f"gRPC: {address} cannot be listened on ({error}); is another server running there? --grpc-port chooses another"
    )
