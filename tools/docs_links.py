"""A hook of mkdocs: what lies outside of docs/ (examples and sources). Pictures come along, links are text: the site holds no sources.

In the repository the same links work as they are; ``tests/test_docs.py`` checks that.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Called by mkdocs for every page; one in a folder of docs/ has a step more to go out."""
    deep = page.file.src_uri.count("/")
    out = "../" * (deep + 1)

    def brought(match: re.Match[str]) -> str:
        path = match["path"]
        if files.get_file_from_path(path) is None:
            source = Path(config["docs_dir"]).parent / path
            files.append(File.generated(config, path, abs_src_path=str(source)))
        return f"![{match['text']}]({'../' * deep}{path})"

    link = rf"\[(?P<text>[^\]]*)\]\({re.escape(out)}(?P<path>[^)\s#]+)[^)]*\)"
    return re.sub(link, _as_text, re.sub(f"!{link}", brought, markdown))


def _as_text(match: re.Match[str]) -> str:
    text, path = match["text"], match["path"]
    return f"`{path}`" if text.strip("`") == path else f"{text} (`{path}`)"
