"""Who is let in: a request with a key, within the limits of the key; and what the audit is told of it."""

from __future__ import annotations

import contextlib
import time
from typing import Any, Optional

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .app_state import State
from .audit import ADMINISTRATIVE, is_administrative
from .errors import ApiError
from .jobs.inner_call import INNER
from .page import PAGE_PATHS
from .rate_limits import Account, account_of_task
from .streaming import FAILED

__all__ = ["OPEN_PATHS", "Access"]

_LOADING = ("POST /api/chat", "POST /api/generate")  # they load and unload models where they have no text
OPEN_PATHS = frozenset(("/health", "/v1/health", "/v2/health/live", "/v2/health/ready", *PAGE_PATHS))
"""What is answered without a key, and counts for none."""


class Access:
    """ASGI middleware around all routes; it looks at the head alone, before anything of the body is read."""

    def __init__(self, app: ASGIApp, state: State) -> None:
        self._app, self._state = app, state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if INNER in scope:
            account_of_task.set(scope[INNER])
            return await self._app(scope, receive, send)
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS or scope["method"] == "OPTIONS":
            return await self._app(scope, receive, send)
        headers = dict(scope["headers"])
        given = headers.get(b"authorization", b"").decode("latin-1")
        key = headers.get(b"x-api-key", b"").decode("latin-1")  # Anthropic's header
        account = self._state.keyring.account(given or f"Bearer {key}")
        call = f"{scope['method']} {scope['path']}"
        if not is_administrative(call) and call not in _LOADING:
            return await self._let_in(account, scope, receive, send)
        start, status = time.perf_counter(), 500

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._let_in(account, scope, receive, watched)
        finally:
            if is_administrative(call) or scope.get(ADMINISTRATIVE):
                name = account.name if account is not None else ""
                seconds = time.perf_counter() - start
                self._state.audit.write(name, _client(scope), call, scope.get(FAILED, status), seconds)

    async def _let_in(self, account: Optional[Account], scope: Scope, receive: Receive, send: Send) -> None:
        if account is None:
            if self._state.keyring.open:
                return await self._app(scope, receive, send)
            error = ApiError(401, "authentication_error", "Invalid API Key", code="invalid_api_key")
            error.headers["WWW-Authenticate"] = "Bearer"
            return await _answer(error, scope, receive, send)

        async def limited(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(account.headers())
            await send(message)

        account_of_task.set(account)
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(account.request())
            except ApiError as error:
                return await _answer(error, scope, receive, send)
            return await self._app(scope, receive, limited)


async def _answer(error: ApiError, scope: Scope, receive: Receive, send: Send) -> None:
    answer = JSONResponse(error.body_for(scope["path"], Headers(scope=scope)), error.status, error.headers)
    await answer(scope, receive, send)


def _client(scope: Any) -> str:
    return (scope.get("client") or ("",))[0]
