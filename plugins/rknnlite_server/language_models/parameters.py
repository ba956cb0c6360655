"""What a model assumes where a request says nothing: Ollama's ``parameters`` of ``/api/create``, kept beside the model."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rknnlite.errors import ParamInvalid, shown
from rknnlite.files.json_text import parse_json
from rknnlite.files.reading import read_text

__all__ = ["parameters_text", "read_parameters"]

logger = logging.getLogger("rknnlite.server")
_WORDS: dict[str, tuple[str, type]] = {
    "temperature": ("temp", float),
    "top_k": ("top_k", int),
    "top_p": ("top_p", float),
    "repeat_penalty": ("repeat_penalty", float),
    "presence_penalty": ("presence_penalty", float),
    "frequency_penalty": ("frequency_penalty", float),
    "num_ctx": ("ctx_size", int),
    "num_predict": ("predict", int),
}
"""Ollama's word -> the field of ``ModelSettings``, and what it holds."""


def parameters_text(given: Mapping[str, Any]) -> bytes:
    """The file for such an object. Raises ParamInvalid for words that are not known, and for what is no number."""
    _settings(given)
    return json.dumps(dict(given)).encode() if given else b""


def read_parameters(path: Path) -> dict[str, Any]:
    """Fields of ``ModelSettings``; a file that makes no sense counts for nothing, which the log tells."""
    try:
        value = parse_json(read_text(path))
        if not isinstance(value, dict):
            raise ParamInvalid("no object")
        return _settings(value)
    except (OSError, ValueError, ParamInvalid) as error:
        logger.warning("%s is left out: %s", path, error)
        return {}


def _settings(given: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name not in _WORDS:
            raise ParamInvalid(f"parameters.{shown(name)} is not known; {', '.join(_WORDS)} are")
        field, kind = _WORDS[name]
        if isinstance(value, bool) or not isinstance(value, (int, float) if kind is float else int):
            raise ParamInvalid(f"parameters.{name} is {shown(value)}, must be a number")
        found[field] = kind(value)
    return found
