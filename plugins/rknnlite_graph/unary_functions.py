"""Functions of one real operand, for separate nodes and behind convolutions: one row of ``FUNCTIONS`` each.

Results have the type of the operand. float32 is for floating networks, whose last bits hang on the machine; what becomes integers
of 8 bits comes from tables in double (``in_double``), where an error of the last bit moves no result.

Sums of convolutions are too many for tables. ``RATIONAL_FUNCTIONS`` of them are sums, products and quotients of float32 alone:
exponentials differ in their last bit from one library and processor to the next, what IEEE 754 rounds does not, as long as no
product and sum are rounded as one. They are written once, for numpy arrays and for whatever else has these operators (names of
ONNX values, say); the error is below 4e-7 of the larger of 1 and x.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "FUNCTIONS",
    "LOGISTIC",
    "LOGISTIC_FACTOR",
    "LOGISTIC_REACH",
    "NORMAL",
    "NORMAL_FACTOR",
    "NORMAL_REACH",
    "RATIONAL_FUNCTIONS",
    "gelu",
    "hard_sigmoid",
    "in_double",
    "sigmoid",
    "silu",
]

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
    return np.asarray(np.copysign(_ONE - poly, x))


def in_double(function: Callable[..., Any], x: Array, *parameters: float) -> Array:
    """A function of float32 values in double, rounded to float32 once."""
    with np.errstate(all="ignore"):
        return np.asarray(function(x.astype(np.float64), *parameters)).astype(np.float32)


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    with np.errstate(over="ignore"):
        return np.asarray(np.float32(1) / (np.float32(1) + np.exp(-x)))


def softplus(x: Array) -> Array:
    """log(1 + exp(x))."""
    return np.asarray(np.logaddexp(x, x.dtype.type(0)))


def elu(x: Array, alpha: float = 1.0) -> Array:
    """x, below zero alpha * (exp(x) - 1)."""
    return np.asarray(np.where(x > 0, x, np.float32(alpha) * np.expm1(np.minimum(x, 0))))


def hard_sigmoid(x: Array, alpha: float = 0.2, beta: float = 0.5) -> Array:
    """alpha * x + beta between 0 and 1."""
    return np.asarray(np.clip(x * np.float32(alpha) + np.float32(beta), 0, 1))


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


# -- by sums, products and quotients alone ---------------------------------------------------------------------

LOGISTIC_REACH, LOGISTIC_FACTOR = 18.0, 0.004279135726392269
LOGISTIC = (
    (19416666112.0, 649158144.0, 4231136.5, 6210.94091796875),
    (332346208.0, 38806832.0, 536781.875, 1698.816650390625),
)
NORMAL_REACH, NORMAL_FACTOR = 5.8, 0.01828041672706604
NORMAL = (
    (18946320.0, 1688177.875, 226911.90625, 8807.4658203125, 304.20550537109375),
    (868162.375, 222048.484375, 25703.966796875, 1718.22900390625, 68.27876281738281),
)
"""Numerators and denominators in the square of x, lowest power first, fitted for the smallest error within reach.

The highest power has the factor 1: no product by a number stands before a sum with one, which compilers of networks would round
as one.
"""


def _polynomial(coefficients: Sequence[float], square: Any) -> Any:
    found = square + coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        found = found * square + coefficient
    return found


def _step(x: Any, reach: float, factor: float, parts: tuple[Sequence[float], Sequence[float]]) -> Any:
    """0.5 + x factor P(x^2) / Q(x^2), of x within reach."""
    near = x.clip(-reach, reach)
    square = near * near
    return near * factor * _polynomial(parts[0], square) / _polynomial(parts[1], square) + 0.5


def _rational_sigmoid(x: Any) -> Any:
    return _step(x, LOGISTIC_REACH, LOGISTIC_FACTOR, LOGISTIC)


def _rational_tanh(x: Any) -> Any:
    return _rational_sigmoid(x * 2.0) * 2.0 - 1.0


def _rational_silu(x: Any, beta: float = 1.0) -> Any:
    return x * _rational_sigmoid(x if beta == 1 else x * beta)


def _rational_gelu(x: Any) -> Any:
    return x * _step(x, NORMAL_REACH, NORMAL_FACTOR, NORMAL)


def _rational_mish(x: Any) -> Any:
    """x * tanh(log(1 + exp(x))), where 1 / (1 + exp(x)) is what the sigmoid leaves of 1."""
    rest = 1.0 - _rational_sigmoid(x)
    square = rest * rest
    return x * (1.0 - square) / (square + 1.0)


def _rational_elu(x: Any, alpha: float = 1.0) -> Any:
    """exp(x) is the ratio of the sigmoid to what it leaves of 1."""
    part = _rational_sigmoid(x.clip(-LOGISTIC_REACH, 0.0))
    below = (part * 2.0 - 1.0) / (1.0 - part)
    return x.clip(0.0, float("inf")) + below * alpha


RATIONAL_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Elu": _rational_elu,
    "Sigmoid": _rational_sigmoid,
    "Tanh": _rational_tanh,
    "exGelu": _rational_gelu,
    "exMish": _rational_mish,
    "exSwish": _rational_silu,
}
"""(x, the parameters of its row) by the first name of a row of ``operators``."""
