"""A request to the application itself, without a socket: as a client's, but that it is let in without a key."""

from __future__ import annotations

import asyncio
from typing import Any, Optional

from starlette.types import ASGIApp

from ..rate_limits import Account

__all__ = ["INNER", "ask"]

INNER = "rknnlite.inner"
"""Entry of the scope: the account that pays. No client can make one."""


async def ask(app: ASGIApp, path: str, body: bytes, account: Optional[Account]) -> tuple[int, bytes]:
    """Status and body of the answer to ``POST path`` with JSON."""
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))],
        "client": None,
        "server": None,
        INNER: account,
    }
    status, answer, asked = 500, bytearray(), False

    async def receive() -> dict[str, Any]:
        nonlocal asked
        if asked:
            await asyncio.Event().wait()  # this client does not go away
        asked = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        elif message["type"] == "http.response.body":
            answer.extend(message.get("body", b""))

    await app(scope, receive, send)  # type: ignore[arg-type]
    return status, bytes(answer)
