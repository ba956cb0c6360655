"""A server of models: OpenAI's API for language models, over the sessions of any backend.

``from rknnlite_server.control import start_server, stop_server`` runs one inside of a program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rknnlite import hookimpl

if TYPE_CHECKING:
    from rknnlite.spi.command import Command

__all__ = ["rknnlite_register_commands"]


@hookimpl
def rknnlite_register_commands(register: Callable[[Command], None]) -> None:
    """Offer what people ask for; without starlette and uvicorn the command says what to install."""
    from rknnlite.libraries import commands_of

    for command in commands_of("server"):
        register(command)
