"""Errors of a pipeline say in which stage, and at which picture, they came."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from rknnlite.errors import RknnError

__all__ = ["PipelineFailed", "in_stage", "named"]


class PipelineFailed(RknnError):
    """A stage of a pipeline raised an error that is none of rknnlite's: the cause of this one.

    Examples:
        >>> try:
        ...     in_stage("sink", 3, int, "x")
        ... except PipelineFailed as error:
        ...     str(error)
        "sink, picture 3: ValueError: invalid literal for int() with base 10: 'x'"
    """


def in_stage(stage: str, number: int, function: Callable[..., Any], *arguments: Any) -> Any:
    """What the function returns; its errors are raised with the name of the stage."""
    try:
        return function(*arguments)
    except Exception as error:
        told = named(stage, number, error)
        raise told from (error if told is not error else error.__cause__)


def named(stage: str, number: int, error: Exception) -> RknnError:
    """The error, saying where it came: of the same kind where it is one of rknnlite's, so that its kind still tells what to do."""
    if hasattr(error, "stage"):  # an inner stage
        assert isinstance(error, RknnError)
        return error
    where = f"{stage}, picture {number}"
    told: RknnError = PipelineFailed(f"{where}: {type(error).__name__}: {error}")
    if isinstance(error, RknnError):
        with contextlib.suppress(TypeError):  # of somebody's own, made of other things than a text
            told = type(error)(f"{where}: {error}")
            told.code = error.code
    told.stage = stage  # type: ignore[attr-defined]
    return told
