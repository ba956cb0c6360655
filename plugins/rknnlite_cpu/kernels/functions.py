"""Activation functions on real values, float32 in and out, for fused and separate nodes.

``LOOKED_UP`` has the function of each row of ``rknnlite_graph.tables.TABLE_FUNCTIONS``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "LOOKED_UP",
    "elu",
    "erf",
    "gelu",
    "hard_sigmoid",
    "hard_swish",
    "mish",
    "sigmoid",
    "silu",
    "softplus",
]

_ONE = np.float32(1)


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


LOOKED_UP: dict[str, Callable[..., Array]] = {
    "Sigmoid": sigmoid,
    "Tanh": np.tanh,
    "Elu": elu,
    "HardSwish": hard_swish,
    "HardSigmoid": hard_sigmoid,
    "Softplus": softplus,
    "ExSwish": silu,
    "ExGelu": gelu,
    "ExMish": mish,
}
"""By the name that follows ``Conv`` in the type of a node."""
