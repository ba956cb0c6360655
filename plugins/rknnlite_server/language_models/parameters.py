"""What a model assumes where a request says nothing: fields of Ollama's ``/api/create``, kept beside the model as one object."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rknnlite_llm.chat_template import JinjaTemplate

from rknnlite.errors import ParamInvalid, shown
from rknnlite.files.json_text import parse_json
from rknnlite.files.reading import read_text

from ..settings import Made, ModelSettings

__all__ = ["modelfile", "parameter_lines", "parameters_text", "read_parameters"]

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
_MADE: dict[str, type] = {"seed": int, "min_p": float}
"""Words of ``parameters`` that are fields of ``Made``."""
_ROLES = ("system", "user", "assistant")
_MOST_STOPS, _MOST_MESSAGES, _LONGEST = 16, 64, 1 << 20
_GO = re.compile(
    r"\{\{-?\s*(\.|\$|(if|else|end|range|with|define|block|template|and|or|not|eq|ne|len|index)\b)"
)
"""What Ollama's templates have, in the language of Go."""


def parameters_text(given: Mapping[str, Any], former: Mapping[str, Any] | None = None) -> bytes:
    """The file for words of ``parameters``, ``system``, ``messages``, ``template`` and ``license``, over those of another.

    Raises ParamInvalid for words that are not known, and for values that they cannot have.
    """
    whole = {
        **(former or {}),
        **{name: value for name, value in given.items() if value not in (None, "", [])},
    }
    text = json.dumps(whole).encode()
    if len(text) > _LONGEST:
        raise ParamInvalid(
            f"the model's parameters, texts and messages have {len(text)} bytes, {_LONGEST} are allowed"
        )
    template = _settings(whole)["made"].template
    if template:
        try:
            JinjaTemplate(template)
        except ParamInvalid as error:
            raise ParamInvalid(f"template: {error}") from None
    return text if whole else b""


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


def parameter_lines(settings: ModelSettings) -> list[tuple[str, str]]:
    """Words and values, as ``/api/show`` and a Modelfile have them."""
    made = settings.made
    lines = [
        (name, f"{getattr(settings, field):g}")
        for name, (field, _) in _WORDS.items()
        if name not in ("num_ctx", "num_predict") or getattr(settings, field) > 0
    ]
    lines += [(name, f"{getattr(made, name):g}") for name in _MADE if getattr(made, name) > 0]
    return [*lines, *(("stop", json.dumps(stop, ensure_ascii=False)) for stop in made.stop)]


def modelfile(name: str, settings: ModelSettings, template: str) -> str:
    """A Modelfile that makes such a model of the one of that name."""
    made = settings.made
    parts = [f"# Modelfile of {name}, served by rknnlite", f"FROM {name}", f"TEMPLATE {_quoted(template)}"]
    parts += [f"SYSTEM {_quoted(made.system)}"] if made.system else []
    parts += [f"PARAMETER {word} {value}" for word, value in parameter_lines(settings)]
    parts += [f"MESSAGE {message['role']} {_quoted(message['content'])}" for message in made.messages]
    parts += [f"LICENSE {_quoted(made.license)}"] if made.license else []
    return "\n".join(parts) + "\n"


def _quoted(text: str) -> str:
    return f'"""{text}"""'


def _settings(given: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    made: dict[str, Any] = {}
    for name, value in given.items():
        if name in _WORDS:
            field, kind = _WORDS[name]
            found[field] = _number(name, value, kind)
        elif name in _MADE:
            made[name] = _number(name, value, _MADE[name])
        elif name in _TEXTS:
            made[name] = _TEXTS[name](name, value)
        else:
            raise ParamInvalid(
                f"parameters.{shown(name)} is not known; {', '.join((*_WORDS, *_MADE, 'stop'))} are"
            )
    return {**found, "made": Made(**made)}


def _number(name: str, value: Any, kind: type) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float) if kind is float else int):
        raise ParamInvalid(f"parameters.{name} is {shown(value)}, must be a number")
    return kind(value)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ParamInvalid(f"{name} is {shown(value)}, must be text")
    return value


def _template(name: str, value: Any) -> str:
    text = _text(name, value)
    if _GO.search(text) and "{%" not in text:
        raise ParamInvalid(
            "template is in Ollama's language, which is not spoken here: leave it out, and the model's own is used, or send a "
            "Jinja template"
        )
    return text


def _license(name: str, value: Any) -> str:
    return "\n".join(_text(name, text) for text in value) if isinstance(value, list) else _text(name, value)


def _stops(name: str, value: Any) -> tuple[str, ...]:
    stops = value if isinstance(value, list) else [value]
    if len(stops) > _MOST_STOPS or not all(isinstance(stop, str) and stop for stop in stops):
        raise ParamInvalid(f"parameters.{name} must be text, or a list of at most {_MOST_STOPS} texts")
    return tuple(stops)


def _messages(name: str, value: Any) -> tuple[Mapping[str, Any], ...]:
    if not isinstance(value, list) or len(value) > _MOST_MESSAGES:
        raise ParamInvalid(f"{name} must be a list of at most {_MOST_MESSAGES} messages")
    for message in value:
        plain = (
            isinstance(message, dict)
            and message.get("role") in _ROLES
            and isinstance(message.get("content"), str)
        )
        if not plain:
            raise ParamInvalid(
                f"{name}: {shown(message)} is none; needed are a role ({', '.join(_ROLES)}) and content"
            )
    return tuple({"role": message["role"], "content": message["content"]} for message in value)


_TEXTS = {"system": _text, "license": _license, "template": _template, "stop": _stops, "messages": _messages}
