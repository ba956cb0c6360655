"""Functions behind convolutions of 8 bits, by sums, products and quotients of float32 alone: the same bits on every machine.

Exponentials differ in their last bit from one library and one processor to the next; what IEEE 754 rounds does not, as long as
no product and sum are rounded as one. All is written once, for numpy arrays and for whatever else has these operators (names of
ONNX values, say); the error is below 4e-7 of the larger of 1 and x.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = [
    "LOGISTIC",
    "LOGISTIC_FACTOR",
    "LOGISTIC_REACH",
    "NORMAL",
    "NORMAL_FACTOR",
    "NORMAL_REACH",
    "RATIONAL_FUNCTIONS",
]

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


def _sigmoid(x: Any) -> Any:
    return _step(x, LOGISTIC_REACH, LOGISTIC_FACTOR, LOGISTIC)


def _tanh(x: Any) -> Any:
    return _sigmoid(x * 2.0) * 2.0 - 1.0


def _silu(x: Any, beta: float = 1.0) -> Any:
    return x * _sigmoid(x if beta == 1 else x * beta)


def _gelu(x: Any) -> Any:
    return x * _step(x, NORMAL_REACH, NORMAL_FACTOR, NORMAL)


def _mish(x: Any) -> Any:
    """x * tanh(log(1 + exp(x))), where 1 / (1 + exp(x)) is what the sigmoid leaves of 1."""
    rest = 1.0 - _sigmoid(x)
    square = rest * rest
    return x * (1.0 - square) / (square + 1.0)


def _elu(x: Any, alpha: float = 1.0) -> Any:
    """exp(x) is the ratio of the sigmoid to what it leaves of 1."""
    part = _sigmoid(x.clip(-LOGISTIC_REACH, 0.0))
    below = (part * 2.0 - 1.0) / (1.0 - part)
    return x.clip(0.0, float("inf")) + below * alpha


RATIONAL_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Elu": _elu,
    "Sigmoid": _sigmoid,
    "Tanh": _tanh,
    "exGelu": _gelu,
    "exMish": _mish,
    "exSwish": _silu,
}
"""(x, the parameters of its row) by the first name of a row of ``operators``."""
