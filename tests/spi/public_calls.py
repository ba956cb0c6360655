"""Every call of the public native API with an argument of a wrong type, found by looking at the API itself."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from rknnlite.errors import RknnError
from rknnlite.spi.arguments import WrongType

WRONG: list[Any] = [
    None,
    3,
    2.5,
    "x",
    b"x",
    [],
    {},
    object(),
    [None],
    np.zeros(3),
    lambda *given, **options: [],
]
_LIFE = {"close", "abandon", "take", "let_go", "begin_step", "end_step", "stop"}
"""What changes who holds an object, or ends it, so that further calls would say nothing."""


def methods(kind: type) -> Iterator[str]:
    """Public methods with parameters, a call of the object itself included."""
    for name, member in inspect.getmembers(kind, inspect.isroutine):
        public = not name.startswith("_") or name == "__call__"
        if (
            public
            and name not in _LIFE
            and inspect.isfunction(inspect.unwrap(member))
            and _parameters(member)
        ):
            yield name


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return [p for p in inspect.signature(function).parameters.values() if p.name not in ("self", "cls")]


def wrong_calls(
    function: Callable[..., Any], right: dict[str, Any]
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Each parameter in turn with each wrong value, beside ``right`` ones; what is needed else is wrong, too.

    Several of ``*name`` stand under that name, star included.
    """
    held = {
        p.name: right[key]
        for p in _parameters(function)
        if (key := ("*" if p.kind is p.VAR_POSITIONAL else "") + p.name) in right
    }
    for parameter in _parameters(function):
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        for wrong in WRONG:
            others = {
                other.name: held.get(other.name, wrong)
                for other in _parameters(function)
                if other.default is other.empty
                and other.kind not in (other.VAR_KEYWORD, other.VAR_POSITIONAL)
            }
            yield (
                f"{parameter.name}={type(wrong).__name__}",
                _call(function, parameter, wrong, {**others, **held}),
            )


def _call(
    function: Callable[..., Any], parameter: inspect.Parameter, wrong: Any, options: dict[str, Any]
) -> Callable[[], Any]:
    several = next((p.name for p in _parameters(function) if p.kind is p.VAR_POSITIONAL), "")
    items = options.pop(several, ())
    if parameter.name == several:
        return lambda: function(*options.values(), wrong)
    if several:  # of which none is there before the others
        before = [p.name for p in _parameters(function) if p.kind is p.POSITIONAL_OR_KEYWORD]
        options = {**options, parameter.name: wrong}
        first = [options.pop(name) for name in before if name in options]
        return lambda: function(*first, *items, **options)
    return lambda: function(**{**options, parameter.name: wrong})


def outcome(call: Callable[[], Any]) -> Exception | None:
    """What a call raises, its generator, coroutine or future included."""
    try:
        _used(call())
    except Exception as error:
        return error
    return None


def _used(result: Any) -> None:
    if inspect.isgenerator(result):
        next(result, None)
        result.close()
    elif inspect.iscoroutine(result):
        asyncio.run(result)
    elif inspect.isasyncgen(result):
        asyncio.run(_first(result))
    elif hasattr(result, "add_done_callback"):
        result.result()
    elif hasattr(result, "close") and hasattr(result, "__exit__"):
        result.close()


async def _first(pieces: Any) -> None:
    async for _ in pieces:
        break
    await pieces.aclose()


def untyped(name: str, function: Callable[..., Any], right: dict[str, Any]) -> tuple[int, list[str]]:
    """Number of calls tried, and those whose error is none of ours or does not name what is wrong."""
    tried, found = 0, []
    for what, call in wrong_calls(function, right):
        tried += 1
        error = outcome(call)
        if isinstance(error, WrongType):
            if " must be " not in str(error):
                found.append(f"{name}({what}): says {error}")
        elif error is not None and not isinstance(error, RknnError):
            found.append(f"{name}({what}): {type(error).__name__}: {str(error)[:100]}")
    return tried, found
