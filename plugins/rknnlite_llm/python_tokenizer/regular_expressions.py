r"""Regular expressions of a ``tokenizer.json`` (Oniguruma, Ruby's syntax) by ``re``, and how a text is cut by them.

``re`` knows no ``\p{L}`` and has another white space; what it cannot compute in the same way is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from .characters import members, space_ranges

__all__ = ["NotHere", "Piece", "Span", "compiled", "cut", "finder"]

_UNIT = re.compile(
    r"\\[pP]\{[^}]*\}|\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|\(\?(?:<[=!]|[a-zA-Z-]*[:)]|.)|\}[+?]|\[\^?\]?|&&|.",
    re.S,
)
_GROUPS = frozenset(["(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:"])
_CATEGORIES = frozenset(
    (
        "C", "L", "M", "N", "P", "S", "Z", "Cc", "Cf", "Cn", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn",
        "Nd", "Nl", "No", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs",
    )
)  # fmt: skip
"""Unicode's general categories and groups of them; no text has surrogates or characters of private use."""
_PLAIN_ESCAPES = frozenset("rntvf")


class NotHere(Exception):
    """A part of a tokenizer that is not computed here; the message names it."""


class Span(NamedTuple):
    """A stretch of a text that a pattern matched, or one between matches."""

    start: int
    end: int
    matched: bool


class Piece(NamedTuple):
    """A piece of a text; ``first``: it is where the whole text begins."""

    text: str
    first: bool


Finder = Callable[[str], list[Span]]


def compiled(pattern: str) -> re.Pattern[str]:
    """Their expression as one of ``re``; raises NotHere, and ValueError for one that is broken."""
    translated = _translated(pattern)
    try:
        return re.compile(translated, re.M)
    except re.error as error:
        for newer in ("+", "(?>"):  # possessive forms, which re has from Python 3.11
            if (
                newer in str(error.pattern) and "multiple repeat" in str(error)
            ) or "unknown extension ?>" in str(error):
                raise NotHere(f"regular expression {pattern!r} ({error})") from None
        if "look-behind" in str(error):
            raise NotHere(f"regular expression {pattern!r} ({error})") from None
        raise ValueError(f"regular expression {pattern!r}: {error}") from None
    except OverflowError as error:
        raise ValueError(f"regular expression {pattern!r}: {error}") from None


def _translated(pattern: str) -> str:
    made: list[str] = []
    inside = False
    for match in _UNIT.finditer(pattern):
        unit = match.group()
        refused = unit in ("&&", "[]", "[^]") or (inside and unit.startswith("["))
        if not inside:
            strange_group = unit.startswith("(?") and unit not in _GROUPS
            refused = refused or unit in ("^", "}+") or (strange_group and not (unit == "(?i)" and not made))
        if refused:
            raise NotHere(f"{unit!r} in the regular expression {pattern!r}")
        if unit.startswith("\\") and len(unit) > 1:
            made.append(_escape(unit, inside, pattern))
            continue
        if unit.startswith("["):
            inside = True
        elif unit == "]":
            inside = False
        made.append(unit)
    return "".join(made)


def _escape(unit: str, inside: bool, pattern: str) -> str:
    letter = unit[1]
    if unit in ("\\A", "\\z") and not inside:
        return unit.upper()
    if letter in "sS":
        ranges = space_ranges(letter == "S")
    elif letter in "dD":
        ranges = members("Nd", letter == "D")
    elif letter in "pP" and len(unit) > 2:
        name = unit[3:-1].lstrip("^")
        if name not in _CATEGORIES:
            raise NotHere(f"{unit!r} in the regular expression {pattern!r}")
        ranges = members(name, (letter == "P") != unit.startswith("^", 3))
    elif letter in _PLAIN_ESCAPES or not letter.isalnum() or (letter in "xu" and len(unit) > 2):
        return unit
    else:
        raise NotHere(f"{unit!r} in the regular expression {pattern!r}")
    return ranges if inside else f"[{ranges}]"


def finder(pattern: Any) -> Finder:
    """What finds ``{"String": ..}`` or ``{"Regex": ..}`` in a text; raises NotHere or ValueError."""
    if isinstance(pattern, Mapping) and isinstance(pattern.get("Regex"), str):
        expression = compiled(pattern["Regex"])
    elif isinstance(pattern, Mapping) and isinstance(pattern.get("String"), str):
        if not pattern["String"]:
            return lambda text: [Span(0, len(text), False)]
        expression = re.compile(re.escape(pattern["String"]))
    else:
        raise ValueError(f"pattern {pattern!r}")
    return lambda text: _spans(expression, text)


def _spans(expression: re.Pattern[str], text: str) -> list[Span]:
    """Matches and what lies between them."""
    spans, at = [], 0
    for match in expression.finditer(text):
        start, end = match.span()
        if start > at:
            spans.append(Span(at, start, False))
        spans.append(Span(start, end, True))
        at = end
    if at < len(text):
        spans.append(Span(at, len(text), False))
    return spans


def cut(piece: Piece, spans: Iterable[Span], behaviour: str) -> list[Piece]:
    """The piece in parts, delimiters (what matched) treated as ``SplitDelimiterBehavior`` says; none is empty."""
    parts = _BEHAVIOURS[behaviour](list(spans))
    return [
        Piece(piece.text[start:end], piece.first and start == 0) for start, end, _ in parts if end > start
    ]


def _removed(spans: list[Span]) -> list[Span]:
    return [span for span in spans if not span.matched]


def _contiguous(spans: list[Span]) -> list[Span]:
    made: list[Span] = []
    for span in spans:
        if made and made[-1].matched == span.matched:
            made[-1] = Span(made[-1].start, span.end, span.matched)
        else:
            made.append(span)
    return made


def _with_previous(spans: list[Span]) -> list[Span]:
    made: list[Span] = []
    before = False
    for span in spans:
        if span.matched and not before and made:
            made[-1] = Span(made[-1].start, span.end, False)
        else:
            made.append(span)
        before = span.matched
    return made


def _with_next(spans: list[Span]) -> list[Span]:
    made: list[Span] = []
    before = False
    for span in reversed(spans):
        if span.matched and not before and made:
            made[-1] = Span(span.start, made[-1].end, False)
        else:
            made.append(span)
        before = span.matched
    return made[::-1]


_BEHAVIOURS: dict[str, Callable[[list[Span]], list[Span]]] = {
    "Removed": _removed,
    "Isolated": list,
    "Contiguous": _contiguous,
    "MergedWithPrevious": _with_previous,
    "MergedWithNext": _with_next,
}
