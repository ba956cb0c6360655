"""Logging of the library: one logger named ``rknnlite`` and the vendor's level numbers.

Nothing global is touched: the logger has a ``NullHandler`` until the application, a face or
``RKNN_LOG_LEVEL`` asks for more (levels: 0 errors, 1 warnings, 2 info, 3 debug, 4 per-layer figures,
5 dump of intermediate tensors; RKNN API 1.2.0, section 4.6.1).
"""

from __future__ import annotations

import logging

from . import config
from .errors import visible

__all__ = ["level", "logger", "show"]

logger = logging.getLogger("rknnlite")
logger.addHandler(logging.NullHandler())

_TO_LOGGING = {0: logging.ERROR, 1: logging.WARNING, 2: logging.INFO, 3: logging.DEBUG}


def level() -> int | None:
    """The number in ``RKNN_LOG_LEVEL`` (0 to 5), or None when it is unset or not a number."""
    try:
        return min(max(int(config.get("log_level") or ""), 0), 5)
    except ValueError:
        return None


def show() -> None:
    """Let all lines be seen on stderr, unless the application or ``RKNN_LOG_LEVEL`` decides about them."""
    quiet = all(isinstance(handler, logging.NullHandler) for handler in logger.handlers)
    if quiet and not logging.getLogger().handlers:
        _to_stderr(logging.DEBUG)


def _attach_stderr() -> None:
    number = level()
    if number is not None:
        _to_stderr(_TO_LOGGING.get(number, logging.DEBUG))


class _Lines(logging.Formatter):
    """Lines that drive no terminal, whatever names are in them."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


def _to_stderr(threshold: int) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(_Lines("%(levelname).1s rknnlite: %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(threshold)
    logger.propagate = False


_attach_stderr()
