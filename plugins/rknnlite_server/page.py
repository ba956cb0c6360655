"""``GET /``: a page for people: chat, models, networks, speech, figures. It fetches nothing from elsewhere, and may not.

Its files lie in the folder ``page`` and are sent as they are, with an ETag, to everybody who finds the server; they hold no
secret. What the page then asks for wants a key like any other request, its own question too, what there is to show.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from rknnlite._version import __version__

from .app_state import state_of
from .errors import ApiError
from .language_models.access import is_local

__all__ = ["PAGE_PATHS", "page_routes"]

_FOLDER = Path(__file__).parent / "page"
_INDEX = "index.html"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_NAMES = tuple(sorted(path.name for path in _FOLDER.iterdir() if path.suffix in _TYPES))
PAGE_PATHS = ("/", *(f"/page/{name}" for name in _NAMES if name != _INDEX))
"""What is sent without a key."""
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; media-src blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",  # asked again each time, and answered with 304: a new version is never half there
}


@dataclass(frozen=True)
class _File:
    content: bytes
    media_type: str
    tag: str


def page_routes() -> list[BaseRoute]:
    """The page, its files, and what it asks first."""
    return [Route("/", page), Route("/page/server.json", offer), Route("/page/{name}", page_file)]


async def page(request: Request) -> Response:
    """``GET /``."""
    return _sent(request, _INDEX)


async def page_file(request: Request) -> Response:
    """``GET /page/NAME``."""
    name = request.path_params["name"]
    if f"/page/{name}" not in PAGE_PATHS:
        raise ApiError(404, "not_found_error", f"the page has no file {name[:80]!r}")
    return _sent(request, name)


async def offer(request: Request) -> Response:
    """``GET /page/server.json``: what there is to show; while models are being loaded, too."""
    state = state_of(request)
    settings = state.settings
    told: dict[str, Any] = {
        "version": __version__,
        "ready": state.ready and not state.stopping,
        "failure": state.failure,
        "metrics": state.metrics is not None,
        "networks": bool(settings.networks or settings.repository),
        "pull": state.library.folder is not None,
    }
    return JSONResponse(told, headers={"Cache-Control": "no-store"})


def _sent(request: Request, name: str) -> Response:
    if state_of(request).keyring.open and not is_local(request):
        raise ApiError(
            403,
            "permission_error",
            "without keys the page is for this machine alone; --api-key-file FILE opens it to others",
            code="not_local",
        )
    file = _file(name)
    headers = {**_HEADERS, "ETag": file.tag}
    given = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
    if file.tag in given:
        return Response(status_code=304, headers=headers)
    return Response(file.content, headers=headers, media_type=file.media_type)


@functools.cache
def _file(name: str) -> _File:
    content = (_FOLDER / name).read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    return _File(content, _TYPES[Path(name).suffix], tag)
