"""What the C functions of librknnrt answer about a context, as bytes and structures: for programs in other languages, and
(``functions``) for those that call them through ``RKNNLite``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .async_runs import AsyncRuns
from .attrs import attr_of, attr_struct, attribute_value, shapes_of, shapes_with
from .inputs import input_of
from .queries import answer, perf_text

if TYPE_CHECKING:
    from .functions import CFunctions, RKNNOutput

__all__ = [
    "AsyncRuns",
    "CFunctions",
    "RKNNOutput",
    "answer",
    "attr_of",
    "attr_struct",
    "attribute_value",
    "input_of",
    "perf_text",
    "shapes_of",
    "shapes_with",
]


def __getattr__(name: str) -> Any:
    """What calls through ``RKNNLite`` need, which few programs make."""
    if name not in ("CFunctions", "RKNNOutput"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import functions

    return getattr(functions, name)
