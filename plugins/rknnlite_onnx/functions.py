"""Activation functions written as ONNX nodes, on float32 reals: the same formulas as the CPU reference computes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from rknnlite_graph.operators import Operator

from .emitter import Emitter

__all__ = ["Function", "applied", "hard_line", "leaky", "sloped"]

Function = Callable[..., str]
"""(emitter, name of the values, parameters) -> name of the results."""


def hard_line(e: Emitter, x: str, slope: float, offset: float) -> str:
    """slope * x + offset between 0 and 1."""
    if e.plain:
        return e.node("HardSigmoid", x, alpha=float(slope), beta=float(offset))
    line = e.node("Add", e.node("Mul", x, e.constant(slope)), e.constant(offset))
    return e.node("Clip", line, e.constant(0.0), e.constant(1.0))


def leaky(e: Emitter, x: str, slope: NDArray[np.float32]) -> str:
    """x, below zero x * slope."""
    zero = e.constant(0.0)
    return e.node("Add", e.node("Max", x, zero), e.node("Mul", e.node("Min", x, zero), e.constant(slope)))


def sloped(e: Emitter, x: str, slope: NDArray[np.float32], fast: bool) -> str:
    """The same as the operator that readers of ONNX know, or ``fast``: engines take 5 to 10 times as long for PRelu."""
    if (slope == slope.flat[0]).all():
        return e.node("LeakyRelu", x, alpha=float(slope.flat[0]))
    return leaky(e, x, slope) if fast else e.node("PRelu", x, e.constant(slope))


def _silu(e: Emitter, x: str, beta: float = 1.0) -> str:
    inner = x if beta == 1 else e.node("Mul", x, e.constant(beta))
    return e.node("Mul", x, e.node("Sigmoid", inner))


def _gelu(e: Emitter, x: str) -> str:
    if e.plain:
        wide = e.node("Add", e.node("Erf", e.node("Div", x, e.constant(1.4142135623730951))), e.constant(1.0))
        return e.node("Mul", e.node("Mul", x, wide), e.constant(0.5))
    wide = e.node("Add", e.node("Erf", e.node("Mul", x, e.constant(0.7071067811865476))), e.constant(1.0))
    return e.node("Mul", e.node("Mul", x, e.constant(0.5)), wide)


def _mish(e: Emitter, x: str) -> str:
    return e.node("Mul", x, e.node("Tanh", e.node("Softplus", x)))


def _hard_swish(e: Emitter, x: str) -> str:
    if e.plain:
        return e.node("HardSwish", x)
    line = e.node("Add", e.node("Div", x, e.constant(np.float32(6))), e.constant(0.5))
    return e.node("Mul", x, e.node("Clip", line, e.constant(0.0), e.constant(1.0)))


_WRITTEN: dict[str, Function] = {
    "HardSigmoid": hard_line,
    "HardSwish": _hard_swish,
    "exGelu": _gelu,
    "exMish": _mish,
    "exSwish": _silu,
}
"""Those that ONNX 17 does not have, or that are to be computed as the CPU reference does, by the first name of their row."""


def applied(e: Emitter, row: Operator, x: str, *parameters: float) -> str:
    """The function of a row of ``rknnlite_graph.operators``: as written here, else ONNX's own of that name."""
    written = _WRITTEN.get(row.name)
    if written is not None:
        return written(e, x, *parameters)
    named = zip((each.name for each in row.parameters), parameters)
    return e.node(row.name, x, **{name: float(value) for name, value in named})
