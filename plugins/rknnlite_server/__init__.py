"""A server of models: OpenAI's API for language models, over the sessions of any backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rknnlite import hookimpl

from .control import ServerStatus, serve, start_server, stop_server
from .settings import ModelSettings, ServerSettings

if TYPE_CHECKING:
    from rknnlite.spi.command import Command

__all__ = [
    "ModelSettings",
    "ServerSettings",
    "ServerStatus",
    "rknnlite_register_commands",
    "serve",
    "start_server",
    "stop_server",
]


@hookimpl
def rknnlite_register_commands(register: Callable[[Command], None]) -> None:
    """Offer what people ask for; without starlette and uvicorn the command says what to install."""
    from .command import COMMAND

    register(COMMAND)
