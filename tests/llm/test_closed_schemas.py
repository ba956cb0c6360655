"""Which objects of a schema are closed, and that answers keep to it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from rknnlite_llm.closed_schemas import with_closed_objects
from rknnlite_llm.schemas import schema_text

NUMBER = {"type": "integer"}
CLOSED = {"additionalProperties": False}


def an(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def test_objects_are_closed_at_every_depth() -> None:
    inner = an(a=NUMBER)
    schema = {
        **an(x=inner, y={"type": "array", "items": inner}, z={"anyOf": [inner, {"type": "null"}]}, r={"$ref": "#/$defs/d"}),
        "$defs": {"d": inner},
    }  # fmt: skip
    shut = {**inner, **CLOSED}
    before = copy.deepcopy(schema)
    assert with_closed_objects(schema) == {
        **an(x=shut, y={"type": "array", "items": shut}, z={"anyOf": [shut, {"type": "null"}]}, r={"$ref": "#/$defs/d"}),
        **CLOSED,
        "$defs": {"d": shut},
    }  # fmt: skip
    assert schema == before


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {**an(a=NUMBER), "additionalProperties": True},
        {**an(a=NUMBER), "additionalProperties": NUMBER},
        {**an(a=NUMBER), "patternProperties": {"^x": NUMBER}},
        {**an(a=NUMBER), "required": ["a", "b"]},
        {"allOf": [an(a=NUMBER), an(b=NUMBER)]},
        {**an(kind=NUMBER), "anyOf": [an(a=NUMBER), an(b=NUMBER)]},
        {"allOf": [an(p=an(a=NUMBER)), an(p=an(b=NUMBER))]},
        {"not": an(a=NUMBER)},
        {"const": an(a=NUMBER)},
        {"default": an(a=NUMBER), "enum": [an(a=NUMBER)]},
        {"allOf": [{"$ref": "#/$defs/a"}, an(b=NUMBER)], "$defs": {"a": an(a=NUMBER)}},
        {
            "allOf": [{"$ref": "#/$defs/a"}, an(b=NUMBER)],
            "$defs": {"a": {"$ref": "#/$defs/c"}, "c": an(a=NUMBER)},
        },
        True,
        {"properties": [1], "items": 7},
    ],
)
def test_what_stays_open(schema: Any) -> None:
    assert with_closed_objects(schema) == schema


def test_what_is_one_schema_after_all_is_closed() -> None:
    """pydantic 2.0 wrote a reference with a description so."""
    schema = {**an(a={"allOf": [{"$ref": "#/$defs/d"}], "description": "one"}), "$defs": {"d": an(b=NUMBER)}}
    assert with_closed_objects(schema)["$defs"]["d"] == {**an(b=NUMBER), **CLOSED}


def test_properties_that_are_called_like_keywords() -> None:
    schema = an(properties=an(a=NUMBER), enum=an(b=NUMBER), **{"a/b~": an(c=NUMBER)})
    made = with_closed_objects(schema)
    assert all(inner["additionalProperties"] is False for inner in made["properties"].values())


def test_a_long_chain_of_references_takes_no_time() -> None:
    names = [f"d{number}" for number in range(5000)]
    chain = {name: {"$ref": f"#/$defs/{after}"} for name, after in zip(names, [*names[1:], "end"])}
    schema = {"allOf": [{"$ref": "#/$defs/d0"}, an(b=NUMBER)], "$defs": {**chain, "end": an(a=NUMBER)}}
    assert with_closed_objects(schema) == schema


def test_the_grammar_has_them() -> None:
    assert '"additionalProperties": false' in schema_text(an(a=NUMBER))
