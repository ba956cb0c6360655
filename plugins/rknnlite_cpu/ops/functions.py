"""Activation functions on real values, float32 in and out, for fused and separate nodes.

``TABLE_FUNCTIONS`` is the list of what the NPU evaluates by table behind a convolution: a fused activation is a row there,
with its function, the unit of its table, and how parameters that no attribute holds are read off the node's stage.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.graph import Stage

__all__ = [
    "TABLE_FUNCTIONS", "TableFunction", "elu", "elu_alpha", "erf", "gelu", "hard_sigmoid",
    "hard_sigmoid_line", "hard_swish", "mish",
    "sigmoid", "silu", "silu_beta", "softplus",
]  # fmt: skip

_ONE = np.float32(1)
_ELU_UNITS, _SILU_UNITS = 3276.80, 2824.787


Array = NDArray[Any]


def erf(x: Array) -> Array:
    """Error function, absolute error below 5e-7 (rational form of Abramowitz and Stegun, 7.1.26), float32."""
    size = np.abs(x, dtype=np.float32)
    t = _ONE / (_ONE + np.float32(0.3275911) * size)
    poly = np.float32(1.061405429) * t
    for term in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        poly += np.float32(term)
        poly *= t
    np.square(size, out=size)
    np.negative(size, out=size)
    np.exp(size, out=size)
    poly *= size
    return np.copysign(_ONE - poly, x)


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    with np.errstate(over="ignore"):
        return np.float32(1) / (np.float32(1) + np.exp(-x))


def softplus(x: Array) -> Array:
    """log(1 + exp(x))."""
    return np.logaddexp(x, np.float32(0)).astype(np.float32)


def elu(x: Array, alpha: float = 1.0) -> Array:
    """x, below zero alpha * (exp(x) - 1)."""
    return np.where(x > 0, x, np.float32(alpha) * np.expm1(np.minimum(x, 0))).astype(np.float32)


def hard_sigmoid(x: Array, alpha: float = 0.2, beta: float = 0.5) -> Array:
    """alpha * x + beta between 0 and 1."""
    return np.clip(x * np.float32(alpha) + np.float32(beta), 0, 1)


def silu(x: Array, beta: float = 1.0) -> Array:
    """x * sigmoid(beta * x)."""
    return x * sigmoid(x * np.float32(beta))


def gelu(x: Array) -> Array:
    """0.5 * x * (1 + erf(x / sqrt(2)))."""
    return np.float32(0.5) * x * (np.float32(1) + erf(x * np.float32(0.7071067811865476)))


def mish(x: Array) -> Array:
    """x * tanh(softplus(x))."""
    return x * np.tanh(softplus(x))


def hard_swish(x: Array) -> Array:
    """x * hard_sigmoid(x) with a slope of 1/6."""
    return x * np.clip(x / np.float32(6) + np.float32(0.5), 0, 1)


# -- parameters that only tables hold ------------------------------------------------------------------------


def elu_alpha(high: Array) -> float:
    """Alpha of a fused Elu from its table: code(x) = 32768 * alpha * exp(x) - 32768 below zero."""
    below = np.flatnonzero(high < 0)
    if not len(below):
        return 1.0
    k = int(below[-1])
    x = (32 * k - 16384) / _ELU_UNITS
    return round(float((high[k] + 32768) / 32768 * np.exp(-x)), 4)


def silu_beta(high: Array) -> float:
    """Beta of x * sigmoid(beta * x) from its table (1.702 is the "quick GELU")."""
    if high[512] <= 0:
        return 1.0
    x = np.arange(513) * 32 / _SILU_UNITS

    def distance(beta: float) -> float:
        f = x / (1 + np.exp(-beta * x))
        return float(np.square(high / high[512] - f / f[512]).sum())

    low, top = 0.1, 8.0
    for _ in range(60):  # ternary search: the distance has one minimum
        a, b = low + (top - low) / 3, top - (top - low) / 3
        low, top = (low, b) if distance(a) < distance(b) else (a, top)
    beta = round((low + top) / 2, 4)
    return 1.0 if abs(beta - 1) < 0.002 else beta


def hard_sigmoid_line(slope: float, offset: float) -> tuple[float, float]:
    """(alpha, beta) of a HardSigmoid whose table is the line 0.5 + index / 32768, with index = slope * x + offset.

    The slope is a 16-bit number. Where beta is 0.5, a short decimal or one over a whole number that it may stand for is
    taken: scales that fit the range (alpha 0.2 on [-2.5, 2.5]) make every second result a tie, and the last bit decides them.
    """
    alpha, beta = slope / 32768, 0.5 + offset / 32768
    if offset or not alpha:
        return alpha, beta
    exact = (*(round(alpha, digits) for digits in (1, 2, 3)), 1 / max(1, round(1 / alpha)))
    return next((number for number in exact if abs(number - alpha) <= alpha * 2.0**-14), alpha), beta


# -- what follows a convolution ------------------------------------------------------------------------------


def _nothing(stage: Stage) -> tuple[float, ...]:
    return ()


@dataclass(frozen=True)
class TableFunction:
    """A function behind a convolution that the NPU evaluates by table.

    ``index_units``: index units of the table per 1.0, the same on all SoCs (docs/rknn-format.md, section 8).
    ``parameters``: further arguments of the function, read off the stage of a node. ``line``: the table is the line
    0.5 + index / 32768 between 0 and 1, and slope and offset lie in the stage.
    """

    function: Callable[..., Array]
    index_units: float
    parameters: Callable[[Stage], tuple[float, ...]] = _nothing
    line: bool = False


TABLE_FUNCTIONS = {
    "Sigmoid": TableFunction(sigmoid, 2596.596),
    "Tanh": TableFunction(np.tanh, 5425.294),
    "Elu": TableFunction(elu, _ELU_UNITS, lambda stage: (elu_alpha(stage.lut.high),) if stage.lut else ()),
    "HardSwish": TableFunction(hard_swish, 5461.29),
    "HardSigmoid": TableFunction(hard_sigmoid, 32768, line=True),
    "Softplus": TableFunction(softplus, 2596.537),
    "ExSwish": TableFunction(
        silu, _SILU_UNITS, lambda stage: (silu_beta(stage.lut.high),) if stage.lut else ()
    ),
    "ExGelu": TableFunction(gelu, 5792.494),
    "ExMish": TableFunction(mish, 3276.82),
}
"""By the name that follows ``Conv`` in the type of a node."""
