"""Errors on their way from a worker to the program: typed, and with the place where they arose."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from rknnlite import errors
from rknnlite.errors import RknnError

__all__ = ["told_at", "typed_errors"]

_TOLD = re.compile(r"^rknnlite\.errors\.(\w+): (.*?)(?=\n\s*\n|\Z)", re.MULTILINE | re.DOTALL)


def told_at(place: str, error: RknnError) -> RknnError:
    """The same error with its place and the machine's name, as one of the classes of ``rknnlite.errors``.

    Others, which a backend derived from those, need not survive the way to another process.
    """
    kind = next(kind for kind in type(error).__mro__ if kind.__module__ == errors.__name__)
    moved = kind(f"{place} ({socket.gethostname()}): {error}")
    assert isinstance(moved, RknnError)
    moved.code = error.code
    return moved


@contextmanager
def typed_errors() -> Iterator[None]:
    """Within the block an ``RknnError`` of a worker is raised as itself, not as what Ray wraps it in.

    >>> with typed_errors():                                               # doctest: +SKIP
    ...     dataset.map_batches(RknnPredictor, **arguments).write_parquet("results")
    """
    from ray.exceptions import RayError

    try:
        yield
    except RayError as error:
        found = _within(error)
        if found is None:
            raise
        raise found from error


def _within(error: Exception) -> RknnError | None:
    """Ray hands on the worker's traceback as text; the last of our errors in it is the one that ended the work."""
    told = _TOLD.findall(str(error))
    if not told:
        return None
    name, text = told[-1]
    kind = getattr(errors, name, None)
    if not (isinstance(kind, type) and issubclass(kind, RknnError)):
        return None
    return kind(text)
