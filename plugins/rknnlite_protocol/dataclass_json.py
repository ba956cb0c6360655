"""Data classes, named tuples and enums as texts of JSON, and back; what comes in is checked against their annotations.

An enum is the name (``Layout``) or, where that is text, the value (``AttrKind``) of its member. Fields that are missing
have their defaults, unknown ones are passed over: the other side may be older or newer. JSON has no word for numbers that
are none: they are texts, ``"nan"``, ``"inf"`` and ``"-inf"``.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import functools
import json
import math
import typing
from collections.abc import Mapping
from typing import Any, TypeVar, Union

from rknnlite.errors import ParamInvalid, shown
from rknnlite.files.json_text import parse_json

__all__ = ["from_text", "to_text"]

T = TypeVar("T")
_LONGEST = 16 << 20  # characters of a text
_MOST = 1 << 16  # items of a list or object
_RANGE = 1 << 63
_NUMBERS = ("nan", "inf", "-inf")


def to_text(value: Any) -> str:
    """The JSON of a value.

    Examples:
        >>> from rknnlite.spi.types import Device
        >>> to_text(Device("0001:11:00.0", "RK1820"))
        '{"id":"0001:11:00.0","soc":"RK1820","memory_total":0,"memory_free":0,"address":""}'
    """
    return json.dumps(_plain(value), separators=(",", ":"), allow_nan=False)


def from_text(kind: Any, text: str, where: str = "the JSON") -> Any:
    """The value of type ``kind`` in a text.

    Args:
        kind: a data class, a named tuple, or a type such as ``tuple[int, ...]``.
        where: what the text is, for messages.

    Raises:
        ParamInvalid: it is no JSON, or something in it is not what the type says; the message names the place.
    """
    if len(text) > _LONGEST:
        raise ParamInvalid(f"{where} has {len(text)} characters, {_LONGEST} are allowed")
    try:
        found = parse_json(text, parse_constant=_no_constant)
    except ValueError as error:
        raise ParamInvalid(f"{where} cannot be read: {shown(error)}") from None
    return _value(kind, found, where)


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


# -- to JSON ----------------------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return _word(value)
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: _plain(item) for name, item in zip(value._fields, value)}
    if isinstance(value, Mapping):
        return {_word(key) if isinstance(key, enum.Enum) else str(key): _plain(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()  # half characters go into no message
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value.item() if hasattr(value, "item") else value  # numbers of numpy


def _word(member: enum.Enum) -> str:
    return member.value if isinstance(member.value, str) else member.name


# -- from JSON --------------------------------------------------------------------------------------------


def _value(kind: Any, found: Any, where: str) -> Any:
    origin = typing.get_origin(kind)
    if origin is Union:
        (inner,) = (item for item in typing.get_args(kind) if item is not type(None))
        return None if found is None else _value(inner, found, where)
    if origin in (tuple, list):
        return origin(_items(typing.get_args(kind)[0], found, where))
    if origin in (dict, collections.abc.Mapping):
        key, item = typing.get_args(kind)
        return _mapping(key, item, found, where)
    if dataclasses.is_dataclass(origin or kind) or hasattr(kind, "_fields"):
        return _object(kind, found, where)
    if issubclass(kind, enum.Enum):
        return _member(kind, found, where)
    return _READ[kind](found, where)


def _items(kind: Any, found: Any, where: str) -> list[Any]:
    if not isinstance(found, list) or len(found) > _MOST:
        raise _wrong(where, found, f"a list of at most {_MOST} items")
    return [_value(kind, item, f"{where}[{number}]") for number, item in enumerate(found)]


def _mapping(key: Any, kind: Any, found: Any, where: str) -> dict[Any, Any]:
    if not isinstance(found, dict) or len(found) > _MOST:
        raise _wrong(where, found, f"an object of at most {_MOST} entries")
    return {
        _value(key, name, where): _value(kind, item, f"{where}.{shown(name)}") for name, item in found.items()
    }


def _object(kind: Any, found: Any, where: str) -> Any:
    if not isinstance(found, dict):
        raise _wrong(where, found, "an object")
    kinds, needed = _fields(kind)
    missing = sorted(needed - found.keys())
    if missing:
        raise ParamInvalid(f"{where}: {missing[0]} is missing")
    given = {
        name: _value(kinds[name], item, f"{where}.{name}") for name, item in found.items() if name in kinds
    }
    return kind(**given)


@functools.cache
def _fields(kind: Any) -> tuple[Mapping[str, Any], frozenset[str]]:
    """Types of the fields of a class, and the names of those without a default."""
    origin = typing.get_origin(kind) or kind
    kinds = typing.get_type_hints(origin)
    if origin is not kind:  # Reading[str]: T is str
        filled = dict(zip(origin.__parameters__, typing.get_args(kind)))
        kinds = {name: _filled(item, filled) for name, item in kinds.items()}
    if dataclasses.is_dataclass(origin):
        fields = [field for field in dataclasses.fields(origin) if field.init]
        empty = dataclasses.MISSING
        needed = {f.name for f in fields if f.default is empty and f.default_factory is empty}
        return {field.name: kinds[field.name] for field in fields}, frozenset(needed)
    return kinds, frozenset(set(origin._fields) - set(origin._field_defaults))


def _filled(kind: Any, types: Mapping[Any, Any]) -> Any:
    open_ones = getattr(kind, "__parameters__", ())
    return kind[tuple(types[one] for one in open_ones)] if open_ones else types.get(kind, kind)


def _member(kind: type[enum.Enum], found: Any, where: str) -> enum.Enum:
    words = {_word(member): member for member in kind}
    if not isinstance(found, str) or found not in words:
        raise _wrong(where, found, f"one of {', '.join(words)}")
    return words[found]


def _whole(found: Any, where: str) -> int:
    if type(found) is not int or not -_RANGE <= found < 2 * _RANGE:
        raise _wrong(where, found, "a whole number of 64 bits")
    return found


def _number(found: Any, where: str) -> float:
    if isinstance(found, str) and found in _NUMBERS:
        return float(found)
    return found if type(found) is float else float(_whole(found, where))


def _flag(found: Any, where: str) -> bool:
    if not isinstance(found, bool):
        raise _wrong(where, found, "true or false")
    return found


def _text(found: Any, where: str) -> str:
    if not isinstance(found, str):
        raise _wrong(where, found, "text")
    return found


_READ = {int: _whole, float: _number, bool: _flag, str: _text}


def _wrong(where: str, found: Any, wanted: str) -> ParamInvalid:
    return ParamInvalid(f"{where} is {shown(found)}, must be {wanted}")
