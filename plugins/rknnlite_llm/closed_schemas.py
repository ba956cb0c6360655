"""JSON Schemas whose objects have no other properties than those that are named, unless they say so.

A schema that is silent about other properties allows them, and a model that may go on does. llama.cpp and Ollama close
such objects, and programs rely on it: ``Model.model_json_schema()`` of pydantic does not close them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Optional

__all__ = ["resolved", "with_closed_objects"]

_OTHERS = ("additionalProperties", "unevaluatedProperties", "patternProperties")
"""Keywords by which an object speaks of other properties."""
_ALONGSIDE = ("not", "if", "then", "else", "dependentSchemas")
"""Keywords whose schemas look at the same object, and say what it is not or may be."""
_NAMED = ("$defs", "definitions")
_BY_NAME = ("properties", *_NAMED)
_VALUES = frozenset(("const", "default", "enum", "example", "examples", "required"))
_MOST_HOPS = 8
_DEEPEST = 100
_MOST_NAMES = 100_000  # that are looked at in a schema
_Said = tuple[dict[str, None], set[str]]
"""Names of properties, and those of them that are required."""


def with_closed_objects(schema: Any) -> Any:
    """The schema with ``additionalProperties: false`` wherever ``properties`` alone describe an object.

    Where several schemas look at one object (``allOf``, ``properties`` beside ``anyOf``), each names properties that the
    others do not know: the object has those of all of them. What is within such properties stays open.
    """
    shared: frozenset[str] = frozenset()
    for _ in range(_MOST_HOPS):  # what a shared schema refers to is shared, too
        found = shared.union(_shared_references(schema, True, "#", shared))
        if found == shared:
            return _closed(schema, True, "#", shared, _Together(schema))
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


def _closed(part: Any, alone: bool, place: str, shared: frozenset[str], together: _Together) -> Any:
    if isinstance(part, list):
        return [_closed(inner, alone, "", shared, together) for inner in part]
    if not isinstance(part, dict):
        return part
    outermost = alone and place not in shared
    alone = outermost and _is_alone(part)
    made = {
        key: dict(value) if key in _BY_NAME and isinstance(value, dict) else value
        for key, value in part.items()
    }
    for key, name, schema, inner, where in _within(part, alone, place):
        target, own = (made[key], name) if key in _BY_NAME and isinstance(part[key], dict) else (made, key)
        target[own] = _closed(schema, inner, where, shared, together)
    if alone and _names_all(part):
        made["additionalProperties"] = False
    elif outermost and not alone:
        names = together.names(part)
        if names:
            others = {name: True for name in names if name not in made.get("properties", ())}
            made["properties"] = {**made.get("properties", {}), **others}
            made["additionalProperties"] = False
    return made


class _Together:
    """What schemas that look at one object say of its properties together."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._known: dict[int, Optional[_Said]] = {}
        self._left = _MOST_NAMES

    def names(self, part: Mapping[str, Any]) -> dict[str, None]:
        """The properties that are named; none where one of the schemas speaks of others, or requires one."""
        said = self._said(part)
        return said[0] if said is not None and said[1] <= said[0].keys() else {}

    def _said(self, part: Any, depth: int = 0) -> Optional[_Said]:
        if part is True:
            return {}, set()
        if depth > _DEEPEST:
            return None
        if id(part) not in self._known:
            self._known[id(part)] = ({}, set())  # a schema that refers to itself says nothing more
            self._known[id(part)] = self._looked_at(part, depth)
        return self._known[id(part)]

    def _looked_at(self, part: Any, depth: int) -> Optional[_Said]:
        if not isinstance(part, dict) or any(name in part for name in (*_OTHERS, *_ALONGSIDE)):
            return None
        properties, required = part.get("properties", {}), part.get("required", [])
        lists = [part.get(key, []) for key in ("allOf", "anyOf", "oneOf")]
        if not isinstance(properties, dict) or not all(isinstance(some, list) for some in (required, *lists)):
            return None
        names, needed = dict.fromkeys(properties), {name for name in required if isinstance(name, str)}
        inner = [schema for some in lists for schema in some]
        if "$ref" in part:
            inner.append(resolved({"$ref": part["$ref"]}, self._root))
        for schema in inner:
            more = self._said(schema, depth + 1)
            if more is None:
                return None
            names.update(more[0])
            needed |= more[1]
            self._left -= 1 + len(more[0])
            if self._left < 0:  # a schema that takes so long is made to
                return None
        return names, needed


def resolved(schema: Any, root: Any) -> Any:
    """What a reference within the schema points at."""
    for _ in range(_MOST_HOPS):
        target = schema.get("$ref") if isinstance(schema, dict) else None
        if not isinstance(target, str) or not target.startswith("#/"):
            return schema
        schema = root
        for step in target[2:].split("/"):
            schema = schema.get(step) if isinstance(schema, dict) else None
    return None


def _names_all(part: Mapping[str, Any]) -> bool:
    """Whether an object names its properties, also those that it requires, and does not speak of others."""
    properties, required = part.get("properties"), part.get("required", [])
    if not isinstance(properties, dict) or any(name in part for name in _OTHERS):
        return False
    return isinstance(required, list) and all(
        isinstance(name, str) and name in properties for name in required
    )
