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
_UNBOUNDED = not hasattr(sys, "get_int_max_str_digits")
"""Whether this Python computes integers of any length; later ones stop at 4300 digits by themselves."""
_ALIKE = bytes.maketrans(b"{}", b"[]")
_OTHERS = bytes(set(range(256)) - set(b"[]{}"))
_TEXTS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


def parse_json(
    text: Union[str, bytes, bytearray],
    parse_constant: Optional[Callable[[str], Any]] = None,
    parse_int: Optional[Callable[[str], Any]] = None,
    parse_float: Optional[Callable[[str], Any]] = None,
) -> Any:
    """The value of a JSON text.

    Args:
        text: UTF-8 where it is bytes.
        parse_constant, parse_int, parse_float: as ``json.loads`` takes them; without the first NaN and Infinity are taken.

    Raises:
        ValueError: no JSON, nested deeper than ``MOST_DEPTH``, or with an integer of more than 4000 digits.
    """
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else bytes(text)
    if _depth(data) > MOST_DEPTH and _depth(_TEXTS.sub(b"", data)) > MOST_DEPTH:
        raise ValueError(f"lists and objects are nested deeper than {MOST_DEPTH}")
    if parse_int is None and _UNBOUNDED:
        parse_int = _bounded
    try:
        return json.loads(text, parse_constant=parse_constant, parse_int=parse_int, parse_float=parse_float)
    except RecursionError:  # where little of the stack was left
        raise ValueError("lists and objects are nested too deeply") from None


def _depth(data: bytes) -> int:
    """The deepest nesting, up to one more than is allowed; brackets in texts count, too, as far as they are there."""
    if data.count(b"[") + data.count(b"{") <= MOST_DEPTH:
        return 0
    left = data.translate(_ALIKE, _OTHERS)
    for depth in range(1, MOST_DEPTH + 1):
        inner = left.replace(b"[]", b"")  # one level less
        if len(inner) == len(left):  # what is not closed
            return depth + left.count(b"[")
        left = inner
    return MOST_DEPTH + 1 if left else MOST_DEPTH


def _bounded(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"a number has {len(digits)} digits")
    return int(digits)
