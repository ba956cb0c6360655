"""What trials of other people's code found, in the cache folder: ``plugins.json``, ``libraries.json``."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from .. import config
from ..files.json_text import parse_json
from ..files.reading import read_bytes
from ..files.writing import writing

__all__ = ["recall", "remember"]

_MOST_KEPT = 1 << 20


def recall(kind: str) -> dict[str, Any]:
    """What is known of ``kind`` ("plugins"), by name; empty where nothing can be read."""
    try:
        kept = parse_json(read_bytes(config.cache_folder() / f"{kind}.json", _MOST_KEPT))
    except (OSError, RuntimeError, ValueError):  # RuntimeError: no home
        return {}
    return kept if isinstance(kept, dict) else {}


def remember(kind: str, name: str, found: list[str]) -> None:
    """Keep what was found of one, if there is room for it."""
    with contextlib.suppress(OSError, RuntimeError):
        folder = config.cache_folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with writing(folder / f"{kind}.json", 0o600, lasting=False) as file:
            file.write(json.dumps({**recall(kind), name: found}, indent=1).encode())
