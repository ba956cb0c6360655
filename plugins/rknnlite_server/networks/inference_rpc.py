"""The calls of the Open Inference Protocol's gRPC service, and of gRPC's health checking."""

from __future__ import annotations

import asyncio
import functools
import weakref
from collections.abc import AsyncIterator, Callable
from typing import Any

from rknnlite_protocol.grpc_codec import parse_request, response_message
from rknnlite_protocol.grpc_messages import BOARD, HEALTH, INFERENCE, message
from rknnlite_protocol.metadata import EXTENSIONS

from rknnlite._version import __version__
from rknnlite.errors import RknnError

from ..app_state import State
from ..async_helpers import closing
from ..errors import ApiError
from ..rate_limits import account_of_task
from .network import ServedNetwork
from .ordered_answers import in_order
from .repository_rpc import repository_calls
from .rpc_errors import logged_outcome

__all__ = ["health_calls", "inference_calls"]

Handler = Callable[[Any, Any], Any]
Limits = weakref.WeakKeyDictionary[ServedNetwork, asyncio.Semaphore]
_WATCH_SECONDS = 0.5
_AT_ONCE = 32  # requests of a stream at most
_SMALL = 1 << 16  # bytes of a request whose numbers are not raw: more are read in a thread
_FINAL, _WANTS_FINAL = "triton_final_response", "triton_enable_empty_final_response"


def inference_calls(state: State, ending: asyncio.Event) -> dict[str, Handler]:
    """By their names in the service; streams take no more requests after ``ending``."""
    calls = _Inference(state, ending)
    return {
        "ServerLive": calls.server_live,
        "ServerReady": calls.server_ready,
        "ServerMetadata": calls.server_metadata,
        "ModelReady": calls.model_ready,
        "ModelMetadata": calls.model_metadata,
        "ModelConfig": calls.model_config,
        "ModelInfer": calls.model_infer,
        "ModelStatistics": calls.model_statistics,
        "ModelStreamInfer": calls.model_stream_infer,
        **repository_calls(state),
    }


class _Inference:
    def __init__(self, state: State, ending: asyncio.Event) -> None:
        self._state, self._ending = state, ending

    async def server_live(self, request: Any, context: Any) -> Any:
        return message("inference.ServerLiveResponse")(live=True)

    async def server_ready(self, request: Any, context: Any) -> Any:
        ready = is_ready(self._state) and not self._ending.is_set()
        return message("inference.ServerReadyResponse")(ready=ready)

    async def server_metadata(self, request: Any, context: Any) -> Any:
        return message("inference.ServerMetadataResponse")(
            name="rknnlite", version=__version__, extensions=EXTENSIONS
        )

    async def model_ready(self, request: Any, context: Any) -> Any:
        try:
            await self._network(request.name, request.version)
            ready = True
        except (ApiError, RknnError):
            ready = False
        return message("inference.ModelReadyResponse")(ready=ready)

    async def model_metadata(self, request: Any, context: Any) -> Any:
        found = (await self._network(request.name, request.version)).metadata
        return message("inference.ModelMetadataResponse")(**{**found, "name": request.name})

    async def model_config(self, request: Any, context: Any) -> Any:
        found = (await self._network(request.name, request.version)).config
        return message("inference.ModelConfigResponse")(config=found)

    async def model_infer(self, request: Any, context: Any) -> Any:
        await self._network(request.model_name, request.model_version)
        return await self._inferred(request)

    async def model_stream_infer(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        self._state.check_ready()
        answered = functools.partial(self._answered, weakref.WeakKeyDictionary())
        async with closing(in_order(requests, answered, _AT_ONCE, self._ending)) as answers:
            async for found in answers:
                yield found
        if self._ending.is_set():
            raise ApiError(503, "unavailable_error", "the server is stopping", retry_after=5)

    async def _answered(self, limits: Limits, request: Any) -> Any:
        """What a stream says to one of its requests: the others do not suffer from an error of it."""
        made = message("inference.ModelStreamInferResponse")()
        try:
            made.infer_response.CopyFrom(await self._in_turn(limits, request))
        except Exception as error:
            _, made.error_message, metadata = logged_outcome(error)
            made.infer_response.model_name, made.infer_response.id = request.model_name, request.id
            for key, value in metadata:
                made.infer_response.parameters[key].string_param = value
        if _WANTS_FINAL in request.parameters and request.parameters[_WANTS_FINAL].bool_param:
            made.infer_response.parameters[_FINAL].bool_param = True
        return made

    async def _in_turn(self, limits: Limits, request: Any) -> Any:
        """A stream has as many requests in a network as that lets through, so that it never fills the queue itself."""
        account = account_of_task.get()
        if account is not None:
            account.count_request()
        network = await self._network(request.model_name, request.model_version)
        limit = limits.setdefault(network, asyncio.Semaphore(network.turnstile.size))
        with self._state.repository.room.hold(request.ByteSize()):
            await limit.acquire()
        try:
            return await self._inferred(request)
        finally:
            limit.release()

    async def model_statistics(self, request: Any, context: Any) -> Any:
        self._state.check_ready()
        repository = self._state.repository
        found = [await self._network(request.name, request.version)] if request.name else repository.loaded
        return message("inference.ModelStatisticsResponse")(
            model_stats=[network.statistics.fields(network.name) for network in found]
        )

    async def _inferred(self, request: Any) -> Any:
        """The network is asked for when the request is read: meanwhile it may have been closed."""
        if not request.raw_input_contents and request.ByteSize() > _SMALL:
            asked = await asyncio.to_thread(parse_request, request)
        else:
            asked = parse_request(request)
        network = await self._network(request.model_name, request.model_version)
        return response_message(await network.infer(asked))

    async def _network(self, name: str, version: str) -> ServedNetwork:
        self._state.check_ready()
        return await self._state.repository.opened(name, version)


def is_ready(state: State) -> bool:
    """Whether requests are answered."""
    try:
        state.check_ready()
    except ApiError:
        return False
    return True


def health_calls(state: State, ending: asyncio.Event) -> dict[str, Handler]:
    """gRPC's health checking, for the server as a whole and for its services by name."""
    made = message("grpc.health.v1.HealthCheckResponse")

    def status(name: str) -> str:
        if name not in ("", INFERENCE, BOARD, HEALTH):
            return "SERVICE_UNKNOWN"
        return "SERVING" if is_ready(state) and not ending.is_set() else "NOT_SERVING"

    async def check(request: Any, context: Any) -> Any:
        found = status(request.service)
        if found == "SERVICE_UNKNOWN":
            raise ApiError(404, "not_found_error", f"there is no service {request.service[:200]!r}")
        return made(status=found)

    async def watch(request: Any, context: Any) -> AsyncIterator[Any]:
        last = ""
        while True:
            found = status(request.service)
            if found != last:
                yield made(status=found)
                last = found
            if ending.is_set():
                return
            await asyncio.wait((ended := asyncio.ensure_future(ending.wait()),), timeout=_WATCH_SECONDS)
            ended.cancel()

    return {"Check": check, "Watch": watch}
