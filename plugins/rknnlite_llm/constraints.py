"""What an answer may look like: JSON, a JSON Schema, a regular expression, choices, a grammar."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Union

__all__ = ["Choice", "Gbnf", "JsonObject", "JsonSchema", "Lark", "Regex", "Rule"]


@dataclass(frozen=True)
class JsonObject:
    """Any JSON object."""


@dataclass(frozen=True)
class JsonSchema:
    """JSON that a schema accepts."""

    schema: Any = field(default_factory=dict)


@dataclass(frozen=True)
class Regex:
    """Text that a regular expression matches as a whole."""

    pattern: str


@dataclass(frozen=True)
class Choice:
    """One of these texts."""

    texts: tuple[str, ...]


@dataclass(frozen=True)
class Gbnf:
    """A grammar as llama.cpp writes it; its start is ``root``."""

    text: str


@dataclass(frozen=True)
class Lark:
    """A grammar as Lark writes it, with the extensions of llguidance; its start is ``start``."""

    text: str


Rule = Union[JsonObject, JsonSchema, Regex, Choice, Gbnf, Lark]
