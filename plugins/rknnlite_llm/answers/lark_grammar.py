"""Pieces of a Lark grammar as llguidance reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

from rknnlite.files.json_text import parse_json

from ..constraints import Choice, Gbnf, JsonObject, JsonSchema, Lark, Regex, Rule
from ..gbnf_lark import lark_of_gbnf
from ..schemas import schema_text

__all__ = ["ANY", "Grammar", "arguments_of", "body_of", "combined", "slashed"]

_NO_CALL = {
    "type": "object",
    "properties": {"parameters": False, "arguments": False},
    "additionalProperties": True,
}
"""Any object that is not read as a call."""

_DENSE = {"whitespace_flexible": False, "item_separator": ", ?", "key_separator": ": ?"}
_LOOSE = {"whitespace_flexible": True, "whitespace_pattern": r" |\n{1,2}[ \t]{0,20}"}
"""How JSON is written: never blanks for ever."""

ANY = r"/(.|\n)*/"


class Grammar:
    """Rules by name; markers that are special tokens are written by their ids."""

    def __init__(self, special: Callable[[str], Optional[int]] = lambda text: None) -> None:
        self._special = special
        self._rules: dict[str, str] = {}

    @property
    def text(self) -> str:
        """The grammar, its start first."""
        ordered = sorted(self._rules.items(), key=lambda pair: not pair[0].startswith("start"))
        return "".join(f"{name}: {body}\n" for name, body in ordered)

    def rule(self, name: str, body: str) -> str:
        """Add a rule under its name; the name without options."""
        self._rules[name] = body
        return name.partition("[")[0]

    terminal = rule

    def fresh(self, body: str, stem: str = "r", options: str = "") -> str:
        """Add a rule under a name of its own."""
        return self.rule(f"{stem}{len(self._rules)}{options}", body)

    def is_token(self, marker: str) -> bool:
        """Whether a marker is one special token."""
        return self._special(marker) is not None

    def marker(self, text: str) -> str:
        """A marker: its token, or its text."""
        number = self._special(text)
        return self.literal(text) if number is None else f"<[{number}]>"

    @staticmethod
    def literal(text: str) -> str:
        """Text as it is."""
        return json.dumps(text, ensure_ascii=False)

    def json_rule(self, schema: Any, layout: Mapping[str, Any] = _DENSE) -> str:
        """JSON that a schema accepts."""
        schema = {**parse_json(schema_text(schema)), "x-guidance": layout}
        return self.fresh(f"%json {json.dumps(schema, ensure_ascii=False)}", "json")

    def text_up_to(self, marker: str) -> str:
        """Any text and the first such marker behind it."""
        if self.is_token(marker):
            return f"{self.terminal('TEXT', ANY)} {self.marker(marker)}"
        return self.fresh(rf"/(.|\n)*{_escaped(marker)}/", "upto", "[lazy]")

    def text_before(self, marker: str, text: str = ANY) -> str:
        """Text of some look with the marker behind it, which the text cannot contain."""
        if self.is_token(marker):
            return f"{self.fresh(text, 'T')} {self.marker(marker)}"
        return self.fresh(text, "text", f"[suffix={self.literal(marker)}]")


def body_of(grammar: Grammar, rule: Rule) -> str:
    """A rule as part of another."""
    if isinstance(rule, JsonObject):
        return grammar.json_rule({"type": "object"}, _LOOSE)
    if isinstance(rule, JsonSchema):
        return grammar.json_rule(rule.schema, _LOOSE)
    if isinstance(rule, Regex):
        return grammar.fresh(f"/{slashed(rule.pattern)}/", "regex")
    if isinstance(rule, Choice):
        return "(" + " | ".join(map(grammar.literal, rule.texts)) + ")"
    return grammar.fresh(f"%lark {{\n{_lark(rule)}\n}}", "nested")


def _lark(rule: Gbnf | Lark) -> str:
    return rule.text if isinstance(rule, Lark) else lark_of_gbnf(rule.text)


def combined(grammar: Grammar, calls: str, otherwise: Rule, functions: Sequence[Mapping[str, Any]]) -> str:
    """Calls without a marker, or something else. Two kinds of JSON must be one schema to be told apart late."""
    if not isinstance(otherwise, (JsonObject, JsonSchema)):
        return f"{calls} | {body_of(grammar, otherwise)}"
    other = otherwise.schema if isinstance(otherwise, JsonSchema) else _NO_CALL
    schemas = [other, *map(_call_schema, functions)]
    places = ["#/anyOf/0", *(f"#/anyOf/{i + 1}/properties/parameters" for i in range(len(functions)))]
    moved = [_moved(schema, place) for schema, place in zip(schemas, places)]
    return grammar.json_rule({"anyOf": moved}, _LOOSE)


def _call_schema(function: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["name", "parameters"],
        "additionalProperties": False,
        "properties": {"name": {"const": function["name"]}, "parameters": arguments_of(function)},
    }


def arguments_of(function: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a function's arguments, which are an object."""
    schema = dict(function.get("parameters") or {})
    return schema if "$ref" in schema else {**schema, "type": "object"}


def _moved(schema: Any, place: str) -> Any:
    """A schema whose references still hold where it is put."""
    if isinstance(schema, Mapping):
        return {
            key: place + value[1:]
            if key == "$ref" and isinstance(value, str) and value.startswith("#")
            else _moved(value, place)
            for key, value in schema.items()
        }
    return [_moved(item, place) for item in schema] if isinstance(schema, list) else schema


def _escaped(text: str) -> str:
    """Text as a regular expression between slashes; where a backslash is not needed it may mean something."""
    return re.sub(r"[\\/.+*?()|\[\]{}^$]", lambda hit: "\\" + hit[0], text)


def slashed(pattern: str) -> str:
    """A regular expression between slashes."""
    return re.sub(r"\\.|/", lambda hit: "\\/" if hit[0] == "/" else hit[0], pattern, flags=re.DOTALL).replace(
        "\n", "\\n"
    )
