"""A JSON object of a package's description, whose members are asked for by type and range."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rknnlite.errors import ModelInvalid, ModelUnsupported, shown

__all__ = ["Fields"]

_LIMIT = 1 << 24
_LONGEST = 1 << 10
"""Characters of a text."""


def _speakable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


class Fields:
    """A JSON object whose members are asked for by type and range; every question raises ModelInvalid for a wrong answer."""

    def __init__(self, value: Any, where: str) -> None:
        if not isinstance(value, Mapping):
            raise ModelInvalid(f"damaged description: {where} is no object")
        self._value = value
        self._where = where

    def _get(self, key: str, kinds: type | tuple[type, ...]) -> Any:
        value = self._value.get(key)
        if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
            raise ModelInvalid(f"damaged description: {self._where}.{key} is {shown(value)}")
        return value

    def text(self, key: str, longest: int = _LONGEST) -> str:
        """A text without half characters."""
        value = str(self._get(key, str))
        if len(value) > longest or (not value.isascii() and value != _speakable(value)):
            raise ModelInvalid(
                f"damaged description: {self._where}.{key} has {len(value)} characters (at most {longest}), or some "
                "that are none (half a surrogate pair)"
            )
        return value

    def flag(self, key: str) -> bool:
        """True or false."""
        return bool(self._get(key, bool))

    def number(self, key: str, low: int = 1, high: int = _LIMIT) -> int:
        """A whole number."""
        value = self._get(key, int)
        if not low <= value <= high:
            raise ModelInvalid(
                f"damaged description: {self._where}.{key} is {shown(value)}, not in {low}..{high}"
            )
        return int(value)

    def real(self, key: str, low: float = 1e-6, high: float = 1e6) -> float:
        """A number."""
        value = self._get(key, (int, float))
        if not low <= value <= high:  # also of whole numbers that no float holds, and of NaN
            raise ModelInvalid(
                f"damaged description: {self._where}.{key} is {shown(value)}, not in {low:g}..{high:g}"
            )
        return float(value)

    def choice(self, key: str, choices: tuple[str, ...]) -> str:
        """One of some words; raises ModelUnsupported for another."""
        value = self.text(key)
        if value not in choices:
            raise ModelUnsupported(
                f"{self._where}.{key} is {shown(value)}; this program knows {', '.join(choices)}"
            )
        return value

    def ids(self, key: str, vocab_size: int) -> tuple[int, ...]:
        """Token ids."""
        values = self._get(key, list)
        if not all(type(v) is int and 0 <= v < vocab_size for v in values):
            raise ModelInvalid(
                f"damaged description: {self._where}.{key} has ids outside 0..{vocab_size - 1}"
            )
        return tuple(values)

    def has(self, key: str) -> bool:
        """Whether it is there, and not null."""
        return self._value.get(key) is not None

    def length(self, key: str) -> int:
        """Members of a list."""
        return len(self._get(key, list))

    def numbers(self, key: str, count: int, high: int) -> tuple[int, ...]:
        """So many whole numbers from 0."""
        values = self._get(key, list)
        if len(values) != count or not all(type(v) is int and 0 <= v <= high for v in values):
            raise ModelInvalid(
                f"damaged description: {self._where}.{key} is not {count} numbers in 0..{high}"
            )
        return tuple(values)

    def reals(self, key: str, count: int, low: float = 1e-6, high: float = 1e6) -> tuple[float, ...]:
        """So many numbers."""
        values = self._get(key, list)
        if len(values) != count or not all(type(v) in (int, float) and low <= v <= high for v in values):
            raise ModelInvalid(
                f"damaged description: {self._where}.{key} is not {count} numbers in {low:g}..{high:g}"
            )
        return tuple(float(v) for v in values)

    def child(self, key: str) -> Fields:
        """An object inside."""
        return Fields(self._value.get(key), f"{self._where}.{key}")

    def children(self, key: str) -> list[Fields]:
        """A list of objects inside."""
        values = self._get(key, list)
        if len(values) > 1024:
            raise ModelInvalid(f"damaged description: {self._where}.{key} has {len(values)} members")
        return [Fields(value, f"{self._where}.{key}[{number}]") for number, value in enumerate(values)]
