"""``GET /``: a page to try the models with. It fetches nothing from elsewhere, and may not."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from pathlib import Path

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

__all__ = ["page"]

_FILE = Path(__file__).parent / "page" / "index.html"
_PARTS = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)


async def page(request: Request) -> Response:
    """The route."""
    text, policy = _page()
    return HTMLResponse(
        text,
        headers={
            "Content-Security-Policy": policy,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-cache",
        },
    )


@functools.lru_cache(maxsize=1)
def _page() -> tuple[str, str]:
    """The page, and a policy that lets run what it contains and nothing else."""
    text = _FILE.read_text(encoding="utf-8")
    hashes = {"script": "", "style": ""}
    for kind, content in _PARTS.findall(text):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        hashes[kind] += f" 'sha256-{digest}'"
    return text, (
        f"default-src 'none'; script-src{hashes['script']}; style-src{hashes['style']}; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
