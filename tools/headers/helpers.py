"""Inline functions that turn a number into its word, which programs print."""

from __future__ import annotations

from collections.abc import Mapping

from .parts import Text

__all__ = ["strings"]


def strings(function: str, kind: str, words: Mapping[str, str], unknown: str = "UNKNOW") -> Text:
    """``static inline`` function: a member of the enumeration ``kind`` -> its word; other numbers: ``unknown``."""
    cases = "".join(f'    case {name}: return "{word}";\n' for name, word in words.items())
    return Text(
        f"static inline const char *{function}({kind} value)\n{{\n    switch (value) {{\n{cases}"
        f'    default: return "{unknown}";\n    }}\n}}'
    )
