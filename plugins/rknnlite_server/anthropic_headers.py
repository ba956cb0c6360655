"""The header ``request-id``, which Anthropic's clients show with errors."""

from __future__ import annotations

import secrets

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .errors import is_anthropic

__all__ = ["RequestIds"]


class RequestIds:
    """ASGI middleware: every answer to a client of Anthropic's API has an id, errors too."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not is_anthropic(scope["path"], Headers(scope=scope)):
            return await self._app(scope, receive, send)

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["request-id"] = f"req_{secrets.token_hex(12)}"
            await send(message)

        return await self._app(scope, receive, named)
