"""What the C functions of librknnrt answer about a context: for the face that offers them in this process, and for programs
in other languages."""

from __future__ import annotations

from .async_runs import AsyncRuns
from .attrs import attr_of, attr_struct, attribute_value, shapes_of, shapes_with
from .inputs import input_of
from .queries import answer, perf_text

__all__ = [
    "AsyncRuns",
    "answer",
    "attr_of",
    "attr_struct",
    "attribute_value",
    "input_of",
    "perf_text",
    "shapes_of",
    "shapes_with",
]
