"""The calls of the Open Inference Protocol's gRPC service, and of gRPC's health checking."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from rknnlite._version import __version__
from rknnlite.protocol.grpc_form import parse_request, response_message
from rknnlite.protocol.messages import message
from rknnlite.protocol.metadata import EXTENSIONS

from ..errors import ApiError
from ..state import State
from .network import ServedNetwork

__all__ = ["health_calls", "inference_calls"]

Handler = Callable[[Any, Any], Any]
_WATCH_SECONDS = 0.5


def inference_calls(state: State) -> dict[str, Handler]:
    """By their names in the service."""
    calls = _Inference(state)
    return {
        "ServerLive": calls.server_live,
        "ServerReady": calls.server_ready,
        "ServerMetadata": calls.server_metadata,
        "ModelReady": calls.model_ready,
        "ModelMetadata": calls.model_metadata,
        "ModelInfer": calls.model_infer,
        "ModelStatistics": calls.model_statistics,
    }


class _Inference:
    def __init__(self, state: State) -> None:
        self._state = state

    async def server_live(self, request: Any, context: Any) -> Any:
        return message("inference.ServerLiveResponse")(live=True)

    async def server_ready(self, request: Any, context: Any) -> Any:
        return message("inference.ServerReadyResponse")(ready=is_ready(self._state))

    async def server_metadata(self, request: Any, context: Any) -> Any:
        return message("inference.ServerMetadataResponse")(
            name="rknnlite", version=__version__, extensions=EXTENSIONS
        )

    async def model_ready(self, request: Any, context: Any) -> Any:
        try:
            self._network(request.name, request.version)
            ready = True
        except ApiError:
            ready = False
        return message("inference.ModelReadyResponse")(ready=ready)

    async def model_metadata(self, request: Any, context: Any) -> Any:
        found = self._network(request.name, request.version).metadata
        return message("inference.ModelMetadataResponse")(**found)

    async def model_infer(self, request: Any, context: Any) -> Any:
        network = self._network(request.model_name, request.model_version)
        return response_message(await network.infer(parse_request(request)))

    async def model_statistics(self, request: Any, context: Any) -> Any:
        self._state.check_ready()
        repository = self._state.repository
        found = [self._network(request.name, request.version)] if request.name else repository.loaded
        return message("inference.ModelStatisticsResponse")(
            model_stats=[network.statistics.fields(network.name) for network in found]
        )

    def _network(self, name: str, version: str) -> ServedNetwork:
        self._state.check_ready()
        return self._state.repository.network(name, version)


def is_ready(state: State) -> bool:
    """Whether requests are answered."""
    try:
        state.check_ready()
    except ApiError:
        return False
    return True


def health_calls(state: State) -> dict[str, Handler]:
    """gRPC's health checking, for the server as a whole and for the services by name."""
    made = message("grpc.health.v1.HealthCheckResponse")

    async def check(request: Any, context: Any) -> Any:
        return made(status="SERVING" if is_ready(state) else "NOT_SERVING")

    async def watch(request: Any, context: Any) -> AsyncIterator[Any]:
        last = None
        while True:
            status = "SERVING" if is_ready(state) else "NOT_SERVING"
            if status != last:
                yield made(status=status)
                last = status
            await asyncio.sleep(_WATCH_SECONDS)

    return {"Check": check, "Watch": watch}
