"""Arguments of a wrong type: an error of ours that names the argument, its type and what is wanted.

Nothing is looked at before something has failed, so a call that is right costs what it did. Then the annotations of the
function are read against what it was given; where all of it fits, the error is somebody else's and stays as it is.
"""

from __future__ import annotations

import functools
import inspect
import numbers
import re
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar, Union

from ..errors import ParamInvalid, RknnError, shown

__all__ = ["Typed", "WrongType", "explain", "typed"]

F = TypeVar("F", bound=Callable[..., Any])
_MOST = 100  # items of a list that are looked at
_LATER = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_TEXT = (str, bytes, bytearray)


_PER_FRAME = frozenset({"infer", "infer_async", "frame", "end_step", "submit"})
"""Methods that a frame goes through and that look at their arguments themselves: a further call would cost each frame."""
_CALLED = {"open_model": "rknnlite.open"}
"""What functions are called where they are public, if it is another name."""
_ANY = {"Any", "object", Any, object}


class WrongType(ParamInvalid, TypeError):
    """An argument has another type than the function takes."""


class Typed:
    """Base of classes whose public methods are all ``typed``, and so are those of their subclasses, wherever they are."""

    __slots__ = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, member in list(vars(cls).items()):
            if (name[0] != "_" or name in ("__init__", "__call__")) and name not in _PER_FRAME:
                _make_typed(cls, name, member)


def typed(function: F) -> F:
    """A function whose failures over wrong types are ``WrongType``, which is a ParamInvalid and a TypeError.

    What runs later (generators, coroutines) is looked at when it is called, since it fails when nobody is here any more.
    """
    if hasattr(function, "__typed__"):
        return function
    call = _checked_first(function) if function.__code__.co_flags & _LATER else _explained(function)
    call.__typed__ = True  # type: ignore[attr-defined]
    return typing.cast(F, call)


def _explained(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except Exception as error:
            explain(error, function, args, options)

    return call


def explain(error: Exception, function: Callable[..., Any], args: Any, options: Any) -> NoReturn:
    """Raise WrongType for the argument that made a function fail; where none did, the error itself.

    ``typed`` does it for others; the functions that every frame goes through call it where they fail.
    """
    wrong = None if isinstance(error, RknnError) else _wrong_argument(function, args, options)
    try:
        if wrong is None:
            raise error
        wrong.__dict__.update(error.__dict__)  # the step that failed
        raise wrong from error
    finally:  # else this frame, which the error remembers, keeps the error, and with it all that was opened
        del error, wrong


def _checked_first(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        wrong = _wrong_argument(function, args, options)
        if wrong is not None:
            raise wrong
        return function(*args, **options)

    return call


def _make_typed(cls: type, name: str, member: Any) -> None:
    """Replace a method that has something to look at: one without annotated parameters costs what it did."""
    function = getattr(member, "__func__", member)
    if not inspect.isfunction(function):
        return
    kinds = {kind for argument, kind in function.__annotations__.items() if argument != "return"}
    if kinds <= _ANY:
        return
    made = typed(function)
    setattr(cls, name, type(member)(made) if isinstance(member, (staticmethod, classmethod)) else made)


def _wrong_argument(function: Callable[..., Any], args: Any, options: Any) -> WrongType | None:
    """What is wrong with the first argument that does not fit; None where all do."""
    try:
        bound = inspect.signature(function).bind(*args, **options).arguments
    except TypeError:  # another number of arguments: Python has said it well
        return None
    kinds = inspect.signature(function).parameters
    for name, value in bound.items():
        parameter = kinds[name]
        values = value if parameter.kind is parameter.VAR_POSITIONAL else [value]
        if parameter.kind is parameter.VAR_KEYWORD or parameter.annotation is parameter.empty:
            continue
        for one in values:
            if not _fits(one, parameter.annotation, function):
                called = _CALLED.get(function.__qualname__, function.__qualname__.replace(".__init__", ""))
                wanted = str(getattr(parameter.annotation, "__name__", parameter.annotation))
                return WrongType(
                    f"{called}: {name} is {type(one).__name__} {shown(one, 60)}, must be {wanted}"
                )
    return None


def _fits(value: Any, annotation: Any, function: Callable[..., Any]) -> bool:
    """Whether a value is one of what an annotation says, text or type."""
    if not isinstance(annotation, str):
        return _fits_kind(value, annotation, function)
    parts = _split(annotation, "|")
    if len(parts) > 1:
        return any(_fits(value, part, function) for part in parts)
    match = re.fullmatch(r"([\w.]+)(?:\[(.*)\])?", annotation.strip(), re.DOTALL)
    if match is None:
        return True
    head, inner = match[1].rpartition(".")[2], match[2]
    if head == "Optional":
        return value is None or _fits(value, inner, function)
    if head == "Union":
        return any(_fits(value, part, function) for part in _split(inner, ","))
    if head in _PLAIN:
        return _PLAIN[head](value) and (head not in _LISTS or _items_fit(value, inner, function))
    found = getattr(function, "__globals__", {}).get(head)
    if found is None:  # imported for types alone
        return any(base.__name__ == head for base in type(value).__mro__)
    return _fits_kind(value, found, function)


def _fits_kind(value: Any, kind: Any, function: Callable[..., Any]) -> bool:
    origin = typing.get_origin(kind)
    alias = getattr(origin or kind, "__value__", None)  # numpy's NDArray from 2.5 on
    if alias is not None:
        return _fits_kind(value, alias, function)
    if origin is Union or type(kind).__name__ == "UnionType":
        return any(_fits_kind(value, one, function) for one in typing.get_args(kind))
    if origin in (list, Sequence) and typing.get_args(kind):
        inner = typing.get_args(kind)[0]
        listed = _PLAIN["Sequence"](value)
        return listed and all(_fits_kind(item, inner, function) for item in value[:_MOST])
    kind = origin or kind
    if isinstance(kind, str):
        return _fits(value, kind, function)
    if not isinstance(kind, type):
        return True
    return _PLAIN.get(kind.__name__, lambda one: isinstance(one, kind))(value)


def _items_fit(value: Any, inner: str | None, function: Callable[..., Any]) -> bool:
    if not inner or not (isinstance(value, Sequence) or _is_array(value)):
        return True
    return all(_fits(item, _split(inner, ",")[0], function) for item in value[:_MOST])


def _split(text: str, sign: str) -> list[str]:
    """The parts between signs that stand in no brackets."""
    parts, depth = [""], 0
    for char in text:
        depth += (char in "[(") - (char in "])")
        if char == sign and not depth:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts]


def _is_array(value: Any) -> bool:
    """One with dimensions; numpy's numbers are none."""
    return hasattr(value, "__array_interface__") and bool(value.ndim)


def _is_whole(value: Any) -> bool:
    return hasattr(value, "__index__") and (
        not hasattr(value, "ndim") or (value.ndim == 0 and value.dtype.kind in "iub")
    )


_LISTS = ("Sequence", "list", "Iterable", "Collection")
_PLAIN: dict[str, Callable[[Any], bool]] = {
    "Any": lambda value: True,
    "object": lambda value: True,
    "Literal": lambda value: True,
    "None": lambda value: value is None,
    "NoneType": lambda value: value is None,
    "int": _is_whole,
    "float": lambda value: isinstance(value, numbers.Real),
    "bool": lambda value: isinstance(value, (bool, int)) or type(value).__name__ in ("bool_", "bool"),
    "PathLike": lambda value: hasattr(value, "__fspath__"),
    "Path": lambda value: hasattr(value, "__fspath__"),
    "Callable": callable,
    "Mapping": lambda value: isinstance(value, Mapping),
    "Sequence": lambda value: (
        (isinstance(value, (Sequence, memoryview)) and not isinstance(value, _TEXT)) or _is_array(value)
    ),
    "Collection": lambda value: isinstance(value, Iterable) and not isinstance(value, _TEXT),
    "Iterable": lambda value: isinstance(value, Iterable) and not isinstance(value, _TEXT),
}
