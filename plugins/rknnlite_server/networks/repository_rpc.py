"""The calls of the model repository over gRPC."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rknnlite_protocol.grpc_messages import message

from rknnlite.errors import ParamInvalid, shown

from ..app_state import State
from .repository import Repository, described

__all__ = ["repository_calls"]

_NO_MATTER = frozenset({"unload_dependents"})  # there are none


def repository_calls(state: State) -> dict[str, Callable[[Any, Any], Any]]:
    """By their names in the service."""
    calls = _Calls(state)
    return {
        "RepositoryIndex": calls.index,
        "RepositoryModelLoad": calls.load,
        "RepositoryModelUnload": calls.unload,
    }


class _Calls:
    def __init__(self, state: State) -> None:
        self._state = state

    async def index(self, request: Any, context: Any) -> Any:
        found = [described(entry) for entry in self._repository().index()]
        lines = [line for line in found if line["state"] == "READY" or not request.ready]
        return message("inference.RepositoryIndexResponse")(models=lines)

    async def load(self, request: Any, context: Any) -> Any:
        name = _name(request)
        await self._repository().load(name)
        return message("inference.RepositoryModelLoadResponse")(model_name=name, isLoaded=True)

    async def unload(self, request: Any, context: Any) -> Any:
        name = _name(request)
        await self._repository().unload(name)
        return message("inference.RepositoryModelUnloadResponse")(model_name=name, isUnloaded=True)

    def _repository(self) -> Repository:
        self._state.check_ready()
        return self._state.repository


def _name(request: Any) -> str:
    """Field 2; field 1 where that is empty, which is KServe's definition. Raises ParamInvalid for parameters."""
    given = sorted(set(request.parameters) - _NO_MATTER)
    if given:
        raise ParamInvalid(
            f"parameter {shown(given[0])}: a model is loaded as its file is; a configuration or files cannot be sent"
        )
    return str(request.model_name or request.repository_name)
