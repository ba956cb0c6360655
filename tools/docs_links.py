"""A hook of mkdocs: links out of docs/ (to examples and sources) are text there, because the site holds no sources.

In the repository the same links work as they are; ``tests/test_docs.py`` checks that.
"""

from __future__ import annotations

import re
from typing import Any


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called by mkdocs for every page; one in a folder of docs/ has a step more to go out."""
    out = "../" * (page.file.src_uri.count("/") + 1)
    link = rf"\[(?P<text>[^\]]*)\]\({re.escape(out)}(?P<path>[^)\s#]+)[^)]*\)"
    return re.sub(link, _as_text, markdown)


def _as_text(match: re.Match[str]) -> str:
    text, path = match["text"], match["path"]
    return f"`{path}`" if text.strip("`") == path else f"{text} (`{path}`)"
