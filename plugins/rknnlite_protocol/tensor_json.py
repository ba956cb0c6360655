"""The elements of a tensor as JSON: a list of numbers, flat or nested.

JSON of megabytes is read and written in a thread beside an event loop, which goes on only while that thread runs
Python code: hence functions where classes would do, and pieces where one call would.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import InputInvalid, shown
from rknnlite.files.json_text import parse_json

from .datatypes import MOST_DIMS, numpy_type

__all__ = ["array_of_list", "json_object", "json_text"]

_LARGE = 1 << 18  # bytes; smaller ones take a few milliseconds
_MOST_LISTS = 1 << 20
_PIECE = 1 << 13  # elements that are written at a time
Array = NDArray[Any]


def json_object(text: bytes, what: str) -> dict[str, Any]:
    """The object in UTF-8 text; raises InputInvalid."""
    nested = text.count(b"[") + text.count(b"{")
    if nested > _MOST_LISTS:  # an empty list takes thirty times the memory of its text
        raise InputInvalid(
            f"{what} has {nested} lists and objects, {_MOST_LISTS} are allowed; give data as flat lists"
        )
    try:
        fields = parse_json(text, parse_constant=_no_constant, takes_turns=len(text) > _LARGE)
    except ValueError as error:
        raise InputInvalid(f"{what} is no JSON: {shown(error)}") from None
    if not isinstance(fields, dict):
        raise InputInvalid(f"{what} is {shown(fields)}, must be a JSON object")
    return fields


def array_of_list(data: Any, datatype: str, shape: list[int], where: str) -> Array:
    """A tensor of a list; raises InputInvalid for another number of elements, and for those that do not fit."""
    dtype = numpy_type(datatype, where)
    flat = _flat(data, where)
    if len(flat) != math.prod(shape):
        raise InputInvalid(f"{where}: shape {shape} has {math.prod(shape)} elements, {len(flat)} were given")
    kinds = {bool} if datatype == "BOOL" else {int, float} if dtype.kind == "f" else {int}
    if not kinds.issuperset(map(type, flat)):
        odd = next(value for value in flat if type(value) not in kinds)
        raise InputInvalid(f"{where}: {shown(odd)} is no element of datatype {datatype}")
    try:
        if dtype.kind in "iu":
            _check_range(flat, dtype, where)
        with np.errstate(all="ignore"):
            return np.array(flat, dtype).reshape(shape)
    except (OverflowError, ValueError) as error:
        raise InputInvalid(f"{where}: {datatype} of shape {shape}: {shown(error)}") from None


def json_text(array: Array, where: str) -> str:
    """The elements as a flat list; raises InputInvalid for NaN and infinite ones."""
    flat = array.reshape(-1)
    if flat.dtype.kind == "f" and not np.isfinite(flat).all():
        odd = flat[~np.isfinite(flat)][0]
        raise InputInvalid(
            f"{where} holds {odd}, which JSON cannot say; ask for it as bytes (parameter binary_data)"
        )
    pieces = [flat[start : start + _PIECE].tolist() for start in range(0, len(flat), _PIECE)]
    return f"[{','.join(json.dumps(piece, separators=(',', ':'))[1:-1] for piece in pieces)}]"


def _no_constant(word: str) -> float:
    raise ValueError(f"{word} is no number in JSON")


def _check_range(flat: list[Any], dtype: Any, where: str) -> None:
    limits = np.iinfo(dtype)
    if flat and not (limits.min <= min(flat) and max(flat) <= limits.max):
        raise InputInvalid(
            f"{where}: values are in {shown(min(flat))}..{shown(max(flat))}, {dtype} has {limits.min}..{limits.max}"
        )


def _flat(data: Any, where: str) -> list[Any]:
    """The elements of nested lists in order; the protocol allows flat ones and nested ones."""
    if not isinstance(data, list):
        raise InputInvalid(f"{where}: data is {shown(data)}, must be a list")
    level = data
    for _ in range(MOST_DIMS):
        if not level or not isinstance(level[0], list):
            return level
        deeper: list[Any] = []
        for item in level:
            if not isinstance(item, list):
                raise InputInvalid(f"{where}: data has lists and values beside each other")
            deeper += item
        level = deeper
    raise InputInvalid(f"{where}: data is nested deeper than {MOST_DIMS} lists")
