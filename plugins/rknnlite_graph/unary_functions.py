"""Functions of one real operand, for separate nodes and behind convolutions: one row of ``FUNCTIONS`` each.

Results have the type of the operand. float32 is for floating networks, whose last bits hang on the machine; what becomes integers
of 8 bits comes from tables in double (``in_double``), where an error of the last bit moves no result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["FUNCTIONS", "gelu", "hard_sigmoid", "in_double", "sigmoid", "silu"]

_ONE = np.float32(1)


Array = NDArray[Any]


def erf(x: Array) -> Array:
    """Error function; in float32 with an absolute error below 5e-7 (rational form of Abramowitz and Stegun, 7.1.26)."""
    if x.dtype == np.float64:
        return np.reshape([math.erf(value) for value in x.ravel()], x.shape)
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


def in_double(function: Callable[..., Any], x: Array, *parameters: float) -> Array:
    """A function of float32 values in double, rounded to float32 once."""
    with np.errstate(all="ignore"):
        return np.asarray(function(x.astype(np.float64), *parameters)).astype(np.float32)


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    with np.errstate(over="ignore"):
        return np.float32(1) / (np.float32(1) + np.exp(-x))


def softplus(x: Array) -> Array:
    """log(1 + exp(x))."""
    return np.logaddexp(x, x.dtype.type(0))


def elu(x: Array, alpha: float = 1.0) -> Array:
    """x, below zero alpha * (exp(x) - 1)."""
    return np.where(x > 0, x, np.float32(alpha) * np.expm1(np.minimum(x, 0)))


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


def celu(x: Array, alpha: float = 1.0) -> Array:
    """x, below zero alpha * (exp(x / alpha) - 1)."""
    return np.maximum(x, 0) + np.minimum(0, np.float32(alpha) * np.expm1(x / np.float32(alpha)))


def selu(x: Array, alpha: float, gamma: float) -> Array:
    """gamma * elu(x)."""
    return np.float32(gamma) * elu(x, alpha)


def leaky_relu(x: Array, alpha: float) -> Array:
    """x, below zero x * alpha."""
    return np.where(x < 0, x * np.float32(alpha), x)


def thresholded_relu(x: Array, alpha: float) -> Array:
    """x above alpha, else 0."""
    return np.where(x > np.float32(alpha), x, np.float32(0))


def shrink(x: Array, lambd: float, bias: float) -> Array:
    """x nearer to 0 by bias, 0 within lambd of it."""
    limit, moved = np.float32(lambd), np.float32(bias)
    return np.where(x < -limit, x + moved, np.where(x > limit, x - moved, np.float32(0)))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Abs": np.abs,
    "Acos": np.arccos,
    "Acosh": np.arccosh,
    "Asin": np.arcsin,
    "Asinh": np.arcsinh,
    "Atan": np.arctan,
    "Atanh": np.arctanh,
    "Ceil": np.ceil,
    "Celu": celu,
    "Cos": np.cos,
    "Cosh": np.cosh,
    "Elu": elu,
    "Erf": erf,
    "Exp": np.exp,
    "Floor": np.floor,
    "HardSigmoid": hard_sigmoid,
    "HardSwish": hard_swish,
    "IsNaN": np.isnan,
    "LeakyRelu": leaky_relu,
    "Log": np.log,
    "Neg": np.negative,
    "Not": np.logical_not,
    "Reciprocal": np.reciprocal,
    "Relu": lambda x: np.maximum(x, 0),
    "Round": np.rint,
    "Selu": selu,
    "Shrink": shrink,
    "Sigmoid": sigmoid,
    "Sign": np.sign,
    "Sin": np.sin,
    "Sinh": np.sinh,
    "Softplus": softplus,
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Sqrt": np.sqrt,
    "Tan": np.tan,
    "Tanh": np.tanh,
    "ThresholdedRelu": thresholded_relu,
    "exDataConvert": lambda x: x,
    "exGelu": gelu,
    "exMish": mish,
    "exSwish": silu,
}
"""(x, the parameters of its row) by the first name of a row of ``rknnlite_graph.operators``."""
