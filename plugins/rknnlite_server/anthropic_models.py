"""The list of models in Anthropic's words, for requests with the header ``anthropic-version``."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from .language_models.model_entry import ModelEntry
from .request_body import Body

__all__ = ["model_info", "model_page"]

_PAGE, _LARGEST_PAGE = 20, 1000


def model_page(entries: Sequence[ModelEntry], query: Mapping[str, str]) -> dict[str, Any]:
    """``GET /v1/models``: a page of them. Raises ApiError."""
    asked = Body({**query})
    names = [entry.name for entry in entries]
    for word in ("after_id", "before_id"):
        if asked.has(word) and asked.text(word) not in names:
            raise asked.wrong(word, "the id of one of the models")
    size = asked.text("limit", str(_PAGE))
    if not (size.isascii() and size.isdigit() and len(size) <= 4 and 1 <= int(size) <= _LARGEST_PAGE):
        raise asked.wrong("limit", f"a whole number in 1..{_LARGEST_PAGE}")
    if asked.has("before_id"):
        end = names.index(asked.text("before_id"))
        start = max(0, end - int(size))
    else:
        start = names.index(asked.text("after_id")) + 1 if asked.has("after_id") else 0
        end = start + int(size)
    page = [model_info(entry) for entry in entries[start:end]]
    more = start > 0 if asked.has("before_id") else end < len(names)
    first, last = (page[0]["id"], page[-1]["id"]) if page else (None, None)
    return {"data": page, "has_more": more, "first_id": first, "last_id": last}


def model_info(entry: ModelEntry) -> dict[str, Any]:
    """``GET /v1/models/NAME``; sizes are null for a model that is not loaded."""
    model = entry.model
    created = int(entry.modified) if model is None else model.created
    limit = model.limit if model is not None else None
    return {
        "type": "model",
        "id": entry.name,
        "display_name": entry.name,
        "created_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(created)),
        "lifecycle": "active",
        "max_input_tokens": limit,
        "max_tokens": limit,
    }
