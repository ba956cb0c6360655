"""An error in the model's process, as the values that go over the wire, and as an error again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from rknnlite_backend import library

from rknnlite import errors
from rknnlite.errors import RknnError

from . import identify

__all__ = ["Failure", "error_of", "failure_of"]

_ERRORS = {
    name: getattr(module, name)
    for module in (errors, library, identify)
    for name in module.__all__
    if isinstance(getattr(module, name), type) and issubclass(getattr(module, name), RknnError)
}
"""Errors that are raised over there, by name."""


@dataclass(frozen=True)
class Failure:
    """An error: name of its class, message, and the codes of ``RknnError`` where they are not those of the class."""

    kind: str
    text: str
    code: Optional[int] = None
    native_code: Optional[int] = None


def failure_of(error: Exception) -> Failure:
    """What goes over the wire. The message is taken as it was given: ``str`` indents its lines for a terminal."""
    given = len(error.args) == 1 and isinstance(error.args[0], str)
    text = error.args[0] if given else str(error)
    own = vars(error)
    return Failure(type(error).__name__, text, own.get("code"), own.get("native_code"))


def error_of(failure: Failure) -> RknnError:
    """The error that it was over there; RknnError for one of a class that is none of ours."""
    error: RknnError = _ERRORS.get(failure.kind, RknnError)(failure.text)
    if failure.code is not None:
        error.code = failure.code
    error.native_code = failure.native_code
    return error
