"""JSON Schemas whose objects have no other properties than those that are named, unless they say so.

A schema that is silent about other properties allows them, and a model that may go on does. llama.cpp and Ollama close
such objects, and programs rely on it: ``Model.model_json_schema()`` of pydantic does not close them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["with_closed_objects"]

_OTHERS = ("additionalProperties", "unevaluatedProperties", "patternProperties")
"""Keywords by which an object speaks of other properties."""
_ALONGSIDE = ("not", "if", "then", "else", "dependentSchemas")
"""Keywords whose schemas look at the same object, and say what it is not or may be."""
_NAMED = ("$defs", "definitions")
_BY_NAME = ("properties", *_NAMED)
_VALUES = frozenset(("const", "default", "enum", "example", "examples", "required"))
_MOST_HOPS = 8


def with_closed_objects(schema: Any) -> Any:
    """The schema with ``additionalProperties: false`` wherever ``properties`` alone describe an object.

    Where several schemas look at one object (``allOf``, ``properties`` beside ``anyOf``), each names properties that the
    others do not know, so those stay open, and what is within them.
    """
    shared: frozenset[str] = frozenset()
    for _ in range(_MOST_HOPS):  # what a shared schema refers to is shared, too
        found = shared.union(_shared_references(schema, True, "#", shared))
        if found == shared:
            return _closed(schema, True, "#", shared)
        shared = found
    return schema


def _is_alone(part: Mapping[str, Any]) -> bool:
    """Whether no two schemas of ``part`` look at the same object."""
    own = any(name in part for name in ("properties", *_OTHERS))
    branches = len(part["allOf"]) if isinstance(part.get("allOf"), list) else 0
    return own + branches + sum(name in part for name in ("anyOf", "oneOf", "$ref", *_ALONGSIDE)) <= 1


def _within(part: Mapping[str, Any], alone: bool, place: str) -> Iterator[tuple[str, str, Any, bool, str]]:
    """Keyword, name below it, schema, whether it is alone, and place ("" within lists) of all that is within."""
    for key, value in part.items():
        inner = key in _NAMED or (alone and key not in _ALONGSIDE)
        if key in _BY_NAME and isinstance(value, dict):
            for name, schema in value.items():
                escaped = name.replace("~", "~0").replace("/", "~1")
                yield key, name, schema, inner, f"{place}/{key}/{escaped}" if place else ""
        elif key not in _VALUES:
            yield key, "", value, inner, f"{place}/{key}" if place else ""


def _shared_references(part: Any, alone: bool, place: str, shared: frozenset[str]) -> Iterator[str]:
    """What is referred to from places that are not alone."""
    if isinstance(part, list):
        for inner in part:
            yield from _shared_references(inner, alone, "", shared)
    elif isinstance(part, dict):
        alone = alone and place not in shared and _is_alone(part)
        if not alone and isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for _, _, schema, inner, where in _within(part, alone, place):
            yield from _shared_references(schema, inner, where, shared)


def _closed(part: Any, alone: bool, place: str, shared: frozenset[str]) -> Any:
    if isinstance(part, list):
        return [_closed(inner, alone, "", shared) for inner in part]
    if not isinstance(part, dict):
        return part
    alone = alone and place not in shared and _is_alone(part)
    made = {
        key: dict(value) if key in _BY_NAME and isinstance(value, dict) else value
        for key, value in part.items()
    }
    for key, name, schema, inner, where in _within(part, alone, place):
        target, own = (made[key], name) if key in _BY_NAME and isinstance(part[key], dict) else (made, key)
        target[own] = _closed(schema, inner, where, shared)
    if alone and _names_all(part):
        made["additionalProperties"] = False
    return made


def _names_all(part: Mapping[str, Any]) -> bool:
    """Whether an object names its properties, also those that it requires, and does not speak of others."""
    properties, required = part.get("properties"), part.get("required", [])
    if not isinstance(properties, dict) or any(name in part for name in _OTHERS):
        return False
    return isinstance(required, list) and all(
        isinstance(name, str) and name in properties for name in required
    )
