"""JSON that others wrote: files of models, requests, messages of other processes. Read in one place, with bounds.

The package ``json`` raises RecursionError for what is nested deeply, as does whatever walks through it later; and makes
integers of any size in a time that goes with the square. Both are a ValueError here, as all that is no JSON.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from typing import Any, Optional, Union

__all__ = ["MOST_DEPTH", "parse_json"]

MOST_DEPTH = 128
"""Lists and objects inside each other. Published files have less than 20."""
_MOST_DIGITS = 4000
_MOST_OBJECTS = 1 << 16
_UNBOUNDED = not hasattr(sys, "get_int_max_str_digits")
"""Whether this Python computes integers of any length; later ones stop at 4300 digits by themselves."""
_ALIKE = bytes.maketrans(b"{}", b"[]")
_OTHERS = bytes(set(range(256)) - set(b"[]{}"))
_TEXTS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


def parse_json(
    text: Union[str, bytes, bytearray],
    parse_constant: Optional[Callable[[str], Any]] = None,
    takes_turns: bool = False,
) -> Any:
    """The value of a JSON text.

    Args:
        text: UTF-8 where it is bytes.
        parse_constant: as ``json.loads`` takes it; without it NaN and Infinity are taken.
        takes_turns: numbers and objects are made by functions of Python, between which other threads get the interpreter's
            lock. They do not get it while objects are freed, so there may be so many of them.

    Raises:
        ValueError: no JSON, nested deeper than ``MOST_DEPTH``, with an integer of more than 4000 digits, or too many objects.
    """
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else bytes(text)
    if data.count(b"[") + data.count(b"{") > MOST_DEPTH:
        outside = _TEXTS.sub(_nothing if takes_turns else b"", data)
        if takes_turns and outside.count(b"{") > _MOST_OBJECTS:
            raise ValueError(f"it has more than {_MOST_OBJECTS} objects")
        if _depth(outside) > MOST_DEPTH:
            raise ValueError(f"lists and objects are nested deeper than {MOST_DEPTH}")
    whole = _bounded if takes_turns or _UNBOUNDED else None
    try:
        return json.loads(
            text, parse_constant=parse_constant, parse_int=whole, parse_float=_float if takes_turns else None,
            object_hook=_object if takes_turns else None,
        )  # fmt: skip
    except RecursionError:  # where little of the stack was left
        raise ValueError("lists and objects are nested too deeply") from None


def _depth(data: bytes) -> int:
    """The deepest nesting of brackets, up to one more than is allowed; ``data`` has no texts, whose brackets are none."""
    left = data.translate(_ALIKE, _OTHERS)
    for depth in range(1, MOST_DEPTH + 1):
        inner = left.replace(b"[]", b"")  # one level less
        if len(inner) == len(left):  # what is not closed
            return depth + left.count(b"[")
        left = inner
    return MOST_DEPTH + 1 if left else MOST_DEPTH


def _nothing(text: re.Match[bytes]) -> bytes:
    return b""


def _object(fields: dict[str, Any]) -> dict[str, Any]:
    return fields


def _float(text: str) -> float:
    return float(text)


def _bounded(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"a number has {len(digits)} digits")
    return int(digits)
