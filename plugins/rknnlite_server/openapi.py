"""``GET /openapi.json``: what the server answers to, for programs that make clients of it."""

from __future__ import annotations

import asyncio
import functools
import json
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from rknnlite._version import __version__
from rknnlite.files.reading import read_yaml

__all__ = ["openapi"]

_FILE = Path(__file__).parent / "openapi.yaml"


async def openapi(request: Request) -> Response:
    """The route."""
    return Response(await asyncio.to_thread(_text), media_type="application/json")


@functools.lru_cache(maxsize=1)
def _text() -> bytes:
    described = read_yaml(_FILE)
    described["info"]["version"] = __version__
    return json.dumps(described, separators=(",", ":")).encode()
