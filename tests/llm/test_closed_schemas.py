"""Which objects of a schema are closed, and that answers keep to it."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from rknnlite_llm import Tokenizer
from rknnlite_llm.closed_schemas import with_closed_objects
from rknnlite_llm.constraints import JsonSchema
from rknnlite_llm.grammars import Grammars
from rknnlite_llm.schemas import schema_text

from tests.support.corpus import EXAMPLES

TINY = EXAMPLES / "llm_chat" / "models" / "tiny.tokenizer.gguf"

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
        {"allOf": [an(a=NUMBER), {**an(b=NUMBER), "additionalProperties": True}]},
        {"allOf": [an(a=NUMBER), {"patternProperties": {"^x": NUMBER}}]},
        {**an(kind=NUMBER), "anyOf": [an(a=NUMBER), {"type": "object", "required": ["b"]}]},
        {"allOf": [an(a=NUMBER)], "if": an(a=NUMBER), "then": an(b=NUMBER)},
        {"not": an(a=NUMBER)},
        {"const": an(a=NUMBER)},
        {"default": an(a=NUMBER), "enum": [an(a=NUMBER)]},
        {"allOf": [{"$ref": "#/$defs/nowhere"}, an(b=NUMBER)]},
        True,
        {"properties": [1], "items": 7},
    ],
)
def test_what_stays_open(schema: Any) -> None:
    assert with_closed_objects(schema) == schema


REFERRED = {"allOf": [{"$ref": "#/$defs/a"}, an(b=NUMBER)]}


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        ({"allOf": [an(a=NUMBER), an(b=NUMBER)]}, ["a", "b"]),
        ({**an(kind=NUMBER), "anyOf": [an(a=NUMBER), an(b=NUMBER)]}, ["a", "b"]),
        ({**an(a=NUMBER, b=NUMBER), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, []),
        ({"allOf": [an(p=an(a=NUMBER)), an(p=an(b=NUMBER))]}, ["p"]),
        ({**REFERRED, "$defs": {"a": an(a=NUMBER)}}, ["a", "b"]),
        ({**REFERRED, "$defs": {"a": {"$ref": "#/$defs/c"}, "c": an(a=NUMBER)}}, ["a", "b"]),
        ({"$ref": "#/$defs/a", **an(b=NUMBER), "$defs": {"a": an(a=NUMBER)}}, ["a"]),
        ({**REFERRED, "$defs": {"a": {**an(a=NUMBER), "allOf": [{"$ref": "#/$defs/a"}]}}}, ["a", "b"]),
    ],
)
def test_schemas_that_look_at_one_object_are_closed_together(schema: Any, names: list[str]) -> None:
    """What each of them says stays as it is."""
    properties = {**schema.get("properties", {}), **dict.fromkeys(names, True)}
    assert with_closed_objects(schema) == {**schema, "properties": properties, **CLOSED}


def test_the_grammar_closes_them_together() -> None:
    pytest.importorskip("llguidance")
    tokenizer = Tokenizer(TINY)
    rules = Grammars(tokenizer, len(tokenizer), (tokenizer.eos_id,))

    def passes(schema: Any, text: str) -> bool:
        constraint = rules.constraint(JsonSchema(schema))
        for token in (*tokenizer.encode(text), tokenizer.eos_id):
            logits = np.zeros(len(tokenizer), np.float32)
            constraint.restrict(logits)
            if not np.isfinite(logits[token]):
                return False
            constraint.accept(token)
        return True

    both = {**REFERRED, "$defs": {"a": an(a=NUMBER)}}
    either = {**an(k=NUMBER), "anyOf": [an(a=NUMBER), an(b=NUMBER)]}
    try:
        assert passes(both, '{"a": 1, "b": 2}') and not passes(both, '{"a": 1}')
        assert not passes(both, '{"a": 1, "b": 2, "c": 3}')
        assert passes(either, '{"k": 1, "a": 2}') and passes(either, '{"k": 1, "b": 2}')
        assert not passes(either, '{"k": 1}') and not passes(either, '{"k": 1, "a": 2, "c": 3}')
        assert passes(
            {**both, "properties": {"c": True}, "additionalProperties": True}, '{"a": 1, "b": 2, "d": 3}'
        )
    finally:
        rules.close()


def test_a_schema_that_branches_again_and_again_takes_no_time() -> None:
    names = [f"d{number}" for number in range(40)]
    twice = {
        name: {"allOf": [{"$ref": f"#/$defs/{after}"}] * 2} for name, after in zip(names, [*names[1:], "end"])
    }
    schema = {"allOf": [{"$ref": "#/$defs/d0"}, an(b=NUMBER)], "$defs": {**twice, "end": an(a=NUMBER)}}
    assert [*with_closed_objects(schema)["properties"]] == ["a", "b"]


def test_a_schema_within_a_schema_and_so_on_is_no_error() -> None:
    names = [f"d{number}" for number in range(5000)]
    chain = {
        name: {"allOf": [{"$ref": f"#/$defs/{after}"}, an(c=NUMBER)]}
        for name, after in zip(names, [*names[1:], "end"])
    }
    schema = {"allOf": [{"$ref": "#/$defs/d0"}, an(b=NUMBER)], "$defs": {**chain, "end": an(a=NUMBER)}}
    assert "additionalProperties" not in with_closed_objects(schema)


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
