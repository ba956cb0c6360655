"""The random cases: ``<kind>.<number>``, drawn from its name alone, so that the name is the seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import random_blocks
import random_conv
import random_correlation
import random_math
import random_regions
import random_shape
from chance import Chance
from graph import Case, Net
from judge import Judge

__all__ = ["KINDS", "cases", "is_random"]

Builder = Callable[[Net, Chance], Any]

_SHARES: tuple[tuple[dict[str, Builder], int], ...] = (
    (random_conv.KINDS, 45),
    (random_math.KINDS, 28),
    (random_shape.KINDS, 22),
    (random_blocks.KINDS, 40),
    (random_regions.KINDS, 12),
    (random_correlation.KINDS, 9),
)
KINDS: dict[str, tuple[Builder, int]] = {
    name: (build, count) for kinds, count in _SHARES for name, build in kinds.items()
}
"""Kind -> what builds a case of it, and how many there are."""

_STEPPING = (*random_math.STEPPING, *random_shape.STEPPING)
_WEIGHTED = (*random_conv.KINDS, *random_blocks.KINDS)
_OPSETS = {"grid": 16, "scatter": 16}
_LAYERED = {
    "combined", "attention", "chain", "branches", "scaling", "head", "tokens", "activated", "arithmetic", "layer_norm",
    "instance_norm", "product", "prelu", "batch_norm", "correlation", "items",
}  # fmt: skip
"""Kinds with several layers, or with a function that the compiler joins to its layer: see ``Judge.FUSED``."""


def is_random(name: str) -> bool:
    """Whether a case is one of these."""
    return name.partition(".")[0] in KINDS and "." in name


def cases() -> Iterator[Case]:
    """All random cases."""
    for kind, (build, count) in KINDS.items():
        for number in range(count):
            yield _case(kind, build, number)


def _case(kind: str, build: Builder, number: int) -> Case:
    name = f"{kind}.{number:04}"
    return Case(
        name,
        lambda net: build(net, Chance(name)),
        _OPSETS.get(kind, 13),
        _judge(kind),
        _config(Chance(f"{name}/config")),
        _dtypes(kind, number),
        kind != "quantised",
    )


def _judge(kind: str) -> Judge:
    if kind in _STEPPING:
        return Judge.STEPS
    return Judge.FUSED if kind in _LAYERED or kind in random_conv.KINDS else Judge.CLOSE


def _config(c: Chance) -> dict[str, Any]:
    """Options of the toolkit: weights scaled as a whole or per channel, one core or all, how much is optimised."""
    found: dict[str, Any] = {"quantized_method": "layer"} if c.odds(0.15) else {}
    if c.odds(0.25):
        found["single_core_mode"] = False
    if c.odds(0.08):
        found["optimization_level"] = c.pick(0, 1, 2)
    return found


def _dtypes(kind: str, number: int) -> tuple[str, ...]:
    """int8 always, the others in turns."""
    found = ["i8"]
    if kind == "quantised":
        return ("i8",)
    if number % 3 == 0:
        found.append("fp16")
    if number % 5 == 1:
        found.append("i16")
    if number % 3 == 1 and kind in _WEIGHTED:
        found += ["w8a16", "w4a16"]
    return tuple(found)
