"""Grammars of arguments in writings that are no JSON, made from a schema: tags, and Gemma's braces."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from .lark_grammar import ANY, Grammar, slashed

__all__ = ["braces", "tags"]

_DEEPEST = 6
_SCALARS = {"integer", "number", "boolean", "null"}


def tags(grammar: Grammar, schema: Mapping[str, Any]) -> str:
    """``<parameter=a>`` and so on, in the order of the schema; what is not required may be left out."""
    pieces = []
    for name, part in _properties(schema).items():
        head = grammar.literal(f"<parameter={name}>\n")
        piece = f"{head} {_tagged(grammar, _resolved(part, schema), schema)}"
        pieces.append(piece if name in schema.get("required", ()) else f"({piece})?")
    return " ".join(pieces)


def _tagged(grammar: Grammar, part: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    end = "\n</parameter>\n"
    choices = _choices(part)
    if choices and all(isinstance(choice, str) for choice in choices):
        return f"({' | '.join(grammar.literal(str(choice)) for choice in choices)}) {grammar.literal(end)}"
    if part.get("type") == "string":
        return grammar.text_before(end, _text(part))
    whole = {**part, **{key: root[key] for key in ("$defs", "definitions") if key in root}}
    return f"{grammar.json_rule(whole)} {grammar.literal(end)}"


def braces(grammar: Grammar, schema: Mapping[str, Any], quote: str) -> str:
    """``{a:QUOTEtextQUOTE,b:1}``, keys in the order of the schema."""
    return _Braces(grammar, schema, quote).object(schema, 0)


class _Braces:
    def __init__(self, grammar: Grammar, root: Mapping[str, Any], quote: str) -> None:
        self._grammar, self._root, self._quote = grammar, root, quote

    def object(self, schema: Mapping[str, Any], depth: int) -> str:
        """An object; what is not required may be left out."""
        required = schema.get("required", ())
        parts = [
            (f"{self._grammar.literal(name + ':')} {self.value(part, depth + 1)}", name in required)
            for name, part in _properties(schema).items()
        ]
        return f'"{{" {_separated(self._grammar, parts)} "}}"'

    def value(self, part: Any, depth: int) -> str:
        """A value of any kind."""
        schema = _resolved(part, self._root)
        choices = _choices(schema)
        if choices:
            return "(" + " | ".join(self._choice(choice) for choice in choices) + ")"
        variants = schema.get("anyOf") or schema.get("oneOf")
        if variants and depth < _DEEPEST:
            return "(" + " | ".join(self.value(variant, depth + 1) for variant in variants) + ")"
        kinds = schema.get("type", "string")
        kinds = kinds if isinstance(kinds, list) else [kinds]
        return "(" + " | ".join(self._kind(kind, schema, depth) for kind in kinds) + ")"

    def _kind(self, kind: str, schema: Mapping[str, Any], depth: int) -> str:
        if kind in _SCALARS:
            return self._grammar.json_rule({**schema, "type": kind})
        if kind == "object" and depth < _DEEPEST:
            return self.object(schema, depth)
        if kind == "array" and depth < _DEEPEST:
            item = self._grammar.fresh(
                self.value(schema.get("items") or {"type": "string"}, depth + 1), "item"
            )
            return f'"[" {_repeated(item, schema.get("minItems", 0), schema.get("maxItems"))} "]"'
        return f"{self._grammar.marker(self._quote)} {self._grammar.text_before(self._quote, _text(schema))}"

    def _choice(self, choice: Any) -> str:
        if isinstance(choice, str):
            quote = self._grammar.marker(self._quote)
            return f"{quote} {self._grammar.literal(choice)} {quote}"
        return self._grammar.json_rule({"const": choice})


def _separated(grammar: Grammar, parts: Sequence[tuple[str, bool]]) -> str:
    """Parts in order with commas between those that are there; each with whether it must be."""
    rest, later = '""', '""'  # what may follow when nothing, and when something, stands before
    for piece, must in reversed(parts):
        tail = grammar.fresh(later, "more")
        first, more = f"{piece} {tail}", f'"," {piece} {tail}'
        rest = grammar.fresh(first if must else f"{first} | {rest}", "keys")
        later = more if must else f"{more} | {grammar.fresh(later, 'skip')}"
    return rest


def _repeated(item: str, fewest: int, most: int | None) -> str:
    if most is not None and most < 1:
        return '""'
    more = f"{max(fewest - 1, 0)},{'' if most is None else most - 1}"
    some = f'{item} ("," {item}){{{more}}}'
    return some if fewest else f"({some})?"


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    found = schema.get("properties")
    return found if isinstance(found, Mapping) else {}


def _choices(schema: Mapping[str, Any]) -> list[Any]:
    if "const" in schema:
        return [schema["const"]]
    found = schema.get("enum")
    return list(found) if isinstance(found, list) else []


def _resolved(part: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema without a reference at its top; any text where it is none."""
    for _ in range(_DEEPEST):
        reference = part.get("$ref") if isinstance(part, Mapping) else None
        if not isinstance(reference, str) or not reference.startswith("#/"):
            break
        part = root
        for step in reference[2:].split("/"):
            part = (
                part.get(step.replace("~1", "/").replace("~0", "~"), {}) if isinstance(part, Mapping) else {}
            )
    return part if isinstance(part, Mapping) else {"type": "string"}


def _text(schema: Mapping[str, Any]) -> str:
    """What text a schema allows, as a regular expression; llguidance matches it as a whole."""
    pattern = schema.get("pattern")
    if isinstance(pattern, str):
        left = "" if pattern.startswith("^") else r"(.|\n)*"
        right = "" if pattern.endswith("$") else r"(.|\n)*"
        inner = re.sub(r"^\^|\$$", "", pattern)
        return f"/{left}({slashed(inner)}){right}/"
    if "minLength" in schema or "maxLength" in schema:
        return rf"/(.|\n){{{schema.get('minLength', 0)},{schema.get('maxLength', '')}}}/"
    return ANY
