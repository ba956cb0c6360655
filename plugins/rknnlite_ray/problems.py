"""Errors on their way from a worker to the program: typed, and with the place where they arose."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from rknnlite import errors
from rknnlite.errors import RknnError
from rknnlite.log import logger, show

__all__ = ["public_class", "typed_errors", "warn", "with_place"]

_TOLD = re.compile(r"^rknnlite\.errors\.(\w+): (.*?)(?=\n\s*\n|\Z)", re.MULTILINE | re.DOTALL)

_FAILED = "Deploying application"
"""How Serve's error begins."""


def warn(text: str, *values: object) -> None:
    """A warning that the user of a program sees, unless the program decides about our lines itself."""
    show()
    logger.warning(text, *values)


def public_class(error: RknnError) -> type[RknnError]:
    """The class of ``rknnlite.errors`` that an error is of; backends derive more from those."""
    return next(kind for kind in type(error).__mro__ if kind.__module__ == errors.__name__)


def with_place(place: str, error: RknnError) -> RknnError:
    """The same error with its place and the machine's name, of a class that survives the way to another process."""
    return public_class(error)(f"{place} ({socket.gethostname()}): {error}", code=error.code)


@contextmanager
def typed_errors() -> Iterator[None]:
    """Within the block an ``RknnError`` of a worker is raised as itself, not as what Ray wraps it in.

    So is one for which a deployment of Serve failed. Others stay as they are.

    >>> with typed_errors():                                               # doctest: +SKIP
    ...     dataset.map_batches(RknnPredictor, **arguments).write_parquet("results")
    """
    from ray.exceptions import RayError

    try:
        yield
    except RayError as error:
        found = _within(str(error))
        if found is None:
            raise
        raise found from error
    except RuntimeError as error:  # how Serve says that a deployment failed; why is in its status
        found = _within("\n\n".join(_failed_deployments())) if str(error).startswith(_FAILED) else None
        if found is None:
            raise
        raise found from error


def _failed_deployments() -> Iterator[str]:
    from ray import serve

    for application in serve.status().applications.values():
        if application.status == "DEPLOY_FAILED":
            yield from (part.message for part in application.deployments.values())


def _within(text: str) -> RknnError | None:
    """Ray hands on the worker's traceback as text; the last of our errors in it is the one that ended the work."""
    told = _TOLD.findall(text)
    if not told:
        return None
    name, said = told[-1]
    kind = getattr(errors, name, None)
    if not (isinstance(kind, type) and issubclass(kind, RknnError)):
        return None
    return kind(said)
