"""JSON Schemas made ready for the grammar library: as JSON text, objects closed, ``oneOf`` as ``anyOf`` where that is the same."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from rknnlite.errors import ParamInvalid, shown

from .closed_schemas import resolved, with_closed_objects

__all__ = ["schema_text"]

_VALUES = frozenset(("const", "default", "enum", "example", "examples"))
"""Keywords whose values are no schemas."""
_EXACT = 2**53
"""Whole numbers up to here are float64."""
_MOST_BRANCHES = 100


def schema_text(schema: Any) -> str:
    """The schema as JSON; raises ParamInvalid for what is none.

    The library refuses ``oneOf`` unless it sees that no two branches accept the same value. Here it also sees
    the usual case of objects that differ in the constant of a required property (a discriminated union).
    """
    if not isinstance(schema, (Mapping, bool)):
        raise ParamInvalid(f"a JSON Schema is an object, not {shown(schema)}")
    if schema is False:
        raise ParamInvalid("the JSON Schema false accepts nothing")
    if schema is True:
        return "{}"
    try:
        json.dumps(schema, allow_nan=False)  # first of all whether it is a tree of limited depth
        _check_numbers(schema)
        closed = with_closed_objects(schema)
        return json.dumps(_with_any_of(closed, closed), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ParamInvalid(f"the JSON Schema is no JSON: {shown(error)}") from None


def _check_numbers(part: Any) -> None:
    """The library computes with float64, and would bind an answer to another number."""
    if type(part) is int and abs(part) > _EXACT:
        raise ParamInvalid(
            f"the JSON Schema has the whole number {shown(part)}, beyond what JSON computes with (2**53)"
        )
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        _check_numbers(inner)


def _with_any_of(part: Any, root: Any) -> Any:
    if isinstance(part, list):
        return [_with_any_of(item, root) for item in part]
    if not isinstance(part, dict):
        return part
    made = {key: value if key in _VALUES else _with_any_of(value, root) for key, value in part.items()}
    branches = made.get("oneOf")
    if isinstance(branches, list) and "anyOf" not in made and _apart(branches, root):
        return {"anyOf" if key == "oneOf" else key: value for key, value in made.items()}
    return made


def _apart(branches: Sequence[Any], root: Any) -> bool:
    """Whether any two branches require different constants of one property."""
    if len(branches) > _MOST_BRANCHES:
        return False
    tags = [_tags(branch, root) for branch in branches]
    return all(
        any(first[name].isdisjoint(second[name]) for name in first.keys() & second.keys())
        for first, second in itertools.combinations(tags, 2)
    )


def _tags(branch: Any, root: Any) -> dict[str, frozenset[Any]]:
    """The required properties of an object that have a few texts, whole numbers, ... for values."""
    branch = resolved(branch, root)
    if not isinstance(branch, dict) or branch.get("type") != "object":
        return {}
    properties, required = branch.get("properties"), branch.get("required")
    if not isinstance(properties, dict) or not isinstance(required, list):
        return {}
    found = {name: _constants(resolved(properties.get(name), root)) for name in map(str, required)}
    return {name: values for name, values in found.items() if values is not None}


def _constants(schema: Any) -> Optional[frozenset[Any]]:
    if not isinstance(schema, dict):
        return None
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(values, list) or not all(type(value) in (str, int, bool) for value in values):
        return None
    return frozenset((type(value).__name__, value) for value in values)
