"""Activation functions on real values, float32 in and out. One table for fused and separate nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["FUNCTIONS", "erf"]

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


def _sigmoid(x: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.float32(1) / (np.float32(1) + np.exp(-x))


def _softplus(x: Array) -> Array:
    return np.logaddexp(x, np.float32(0)).astype(np.float32)


def _elu(x: Array, alpha: float = 1.0) -> Array:
    return np.where(x > 0, x, np.float32(alpha) * np.expm1(np.minimum(x, 0))).astype(np.float32)


def _hard_sigmoid(x: Array, alpha: float = 0.2, beta: float = 0.5) -> Array:
    return np.clip(x * np.float32(alpha) + np.float32(beta), 0, 1)


def _silu(x: Array, beta: float = 1.0) -> Array:
    return x * _sigmoid(x * np.float32(beta))


FUNCTIONS: dict[str, Callable[..., Array]] = {
    "Sigmoid": _sigmoid,
    "Softplus": _softplus,
    "ExSwish": _silu,
    "ExGelu": lambda x: np.float32(0.5) * x * (np.float32(1) + erf(x * np.float32(0.7071067811865476))),
    "ExMish": lambda x: x * np.tanh(_softplus(x)),
    "Tanh": lambda x: np.tanh(x),
    "HardSwish": lambda x: x * np.clip(x / np.float32(6) + np.float32(0.5), 0, 1),
    "HardSigmoid": _hard_sigmoid,
    "Elu": _elu,
}
