"""Who may ask a server that has no keys: programs, and web pages of its own or of listed origins; nobody else's.

A page that a user of this machine looks at can send requests to 127.0.0.1 as well as to its own site. It cannot choose
``Host`` and ``Origin``, which the browser writes, nor send a body of any but three old content types without asking first
(a preflight, Fetch standard 4.9), which is answered for listed origins alone. So:

* ``Host`` is a loopback name, the address that was called, or one that was configured: a name of the page's own that was
  made to lead here (DNS rebinding) is refused.
* ``Origin`` is absent, the server's own, or listed.
* A POST comes with a content type that a page cannot send without a preflight. Programs may leave it out; what bears a
  browser's marks may not (node's ``fetch`` has them). Of other methods GET and HEAD change nothing, and PUT, PATCH and DELETE
  are never sent without a preflight. Sound and pictures are sent as a form, one of the old types: their routes, which change
  nothing, take one from programs, and from pages whose ``Origin`` was found to be the server's own or listed.

With keys there is nothing to check: a page does not have them, and could not send ``Authorization`` without a preflight.
"""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Collection, Mapping
from typing import Optional
from urllib.parse import urlsplit

from rknnlite_vision.heads.head import ASKED
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from .errors import ApiError
from .settings import ServerSettings

__all__ = ["ALL", "Origins", "refusal"]

ALL = "*"
"""In place of a host or an origin: every one."""
_SIMPLE = ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain")
"""Content types that a page may send without a preflight."""
_FORMS = (
    "/v1/audio/transcriptions",
    "/v1/audio/translations",
    *(f"/v1/vision/{name}" for name in ASKED),
)
"""Routes that take a form, as OpenAI's clients send one, and curl."""
_ASKED = ("inference-header-content-length", "x-requested-with")
"""Headers that no page sends without a preflight, whatever the content type beside them."""
_MARKS = ("origin", "referer", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest")
"""Headers that browsers add, and programs do not."""


class Origins:
    """ASGI middleware that refuses what a stranger's page may have sent; of a server with keys it lets everything through."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app = app
        self._open = not settings.has_keys
        self._hosts = [*settings.allow_hosts, settings.host]
        self._origins = settings.cors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._open:
            headers: dict[str, str] = {}
            for name, value in (
                (name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]
            ):
                # two of one are none
                headers[name] = f"{headers[name]}, {value}" if name in headers else value
            called = (scope.get("server") or ("",))[0]
            form = scope["path"] in _FORMS
            error = refusal(scope["method"], headers, called, self._hosts, self._origins, form)
            if error is not None:
                answer = JSONResponse(error.body_for(scope["path"]), error.status, {"Connection": "close"})
                return await answer(scope, receive, send)
        return await self._app(scope, receive, send)


def refusal(
    method: str,
    headers: Mapping[str, str],
    called: str,
    hosts: Collection[str],
    origins: Collection[str],
    form: bool = False,
) -> Optional[ApiError]:
    """Why a request is refused, None where it is not.

    Args:
        headers: of the request, names in lower case.
        called: the address of this machine that the connection came to.
        hosts: names and addresses that were configured; ``*`` is every one.
        origins: as ``https://page.example``, whose pages may ask; ``*`` is every one.
        form: whether the route takes a form.
    """
    host = headers.get("host", "")
    if host and ALL not in hosts and not _is_here(host, called, hosts):
        return _refused(
            f"Host {host[:100]!r} is no name of this server; a server without keys answers to loopback names, and to names given "
            "with --allow-host NAME"
        )
    origin = headers.get("origin")
    if origin is not None and ALL not in origins and origin not in origins and not _is_own(origin, host):
        return _refused(
            f"pages of {origin[:100]!r} may not ask this server; give it --allow-origin ORIGIN, or keys with --api-key-file FILE"
        )
    site = headers.get("sec-fetch-site", "none")
    if origin is None and site in ("cross-site", "same-site") and headers.get("sec-fetch-mode") != "navigate":
        return _refused(
            "another page asks for a part of this server; pages that may are named with --allow-origin"
        )
    if method != "POST" or any(name in headers for name in _ASKED) or _has_bearer(headers):
        return None
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    from_a_page = any(name in headers for name in _MARKS)
    if form and kind == "multipart/form-data" and (origin is not None or not from_a_page):
        return None
    if kind in _SIMPLE or (not kind and from_a_page):
        return ApiError(
            415,
            "invalid_request_error",
            f"Content-Type is {kind or 'missing'}; send application/json (or application/octet-stream): a server without keys "
            "takes nothing that any web page may send",
        )
    return None


def _has_bearer(headers: Mapping[str, str]) -> bool:
    """No page sends that without a preflight; ``Basic`` may come from an address with a name and a password."""
    return headers.get("authorization", "").lower().startswith("bearer ")


def _refused(text: str) -> ApiError:
    return ApiError(403, "permission_error", text, code="origin_refused")


def _is_here(host: str, called: str, hosts: Collection[str]) -> bool:
    name = _name(host)
    if name is None:
        return False
    configured = {_name(one) or one.lower() for one in hosts}
    return name in configured or name == "localhost" or name.endswith(".localhost") or _is_local(name, called)


def _is_local(name: str, called: str) -> bool:
    """Whether it is the number of a loopback address, or the very one that was called: no DNS has a say in those."""
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or name == (_name(f"[{called}]" if ":" in called else called) or "")


@functools.lru_cache(maxsize=64)
def _name(host: str) -> Optional[str]:
    """The name or address in ``host:port``, in its plain form; None for what is none."""
    try:
        parts = urlsplit(f"//{host}")
        name = (parts.hostname or "").partition("%")[0].rstrip(".")
        _ = parts.port  # raises for what is no number
    except ValueError:
        return None
    if not name or parts.path or parts.query or parts.username is not None:
        return None
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return name
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def _is_own(origin: str, host: str) -> bool:
    """Whether a page of this very server asks: the same name and port, whichever scheme a proxy before us speaks."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(host) and parts.netloc.lower() == host.lower()
