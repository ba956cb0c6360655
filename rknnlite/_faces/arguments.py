"""What a program hands to a face, whose own ``__bool__``, ``__repr__`` or ``__fspath__`` may raise."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import InputInvalid
from ..spi.inputs import truth

__all__ = ["described", "flags", "is_file", "path_of", "shown"]

_LONGEST = 4096  # characters that a path has at most on Linux


def path_of(given: Any) -> str | None:
    """The name that a path stands for; None for what is no path, an empty one, or one that no file can have."""
    if not isinstance(given, (str, bytes, os.PathLike)):
        return None
    try:
        name = os.fsdecode(given)
        os.fsencode(name)
    except Exception:  # whatever the object's own __fspath__ does; a lone surrogate
        return None
    return name or None


def is_file(given: Any) -> bool:
    """Whether it is a path and a file is there."""
    name = path_of(given)
    try:
        return name is not None and Path(name).is_file()
    except (OSError, ValueError):  # longer than the system allows, or with a null character
        return False


def shown(given: Any) -> str:
    """A value as a log line shows it: text as it is, not all of what may be megabytes."""
    text = given if isinstance(given, str) else path_of(given) or described(given)
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text)} characters)"


def described(given: Any) -> str:
    """The repr of a value that means nothing, as an error shows it: a line of it, whatever the object does."""
    try:
        return f"{given!r:.80}"
    except Exception as error:
        return f"a {type(given).__name__} whose repr raises {type(error).__name__}"


def flags(given: Mapping[str, Any]) -> tuple[dict[str, bool], list[str]]:
    """Flags of a constructor, which has no code to return: what each says, and what is wrong with those taken as False."""
    said, problems = {}, []
    for name, value in given.items():
        try:
            said[name] = truth(value, name)
        except InputInvalid as error:
            said[name] = False
            problems.append(f"{error}; it is taken as False, give True or False.")
    return said, problems
