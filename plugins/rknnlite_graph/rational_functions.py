"""Functions behind convolutions of 8 bits, by sums, products and quotients of float32 alone: the same bits on every machine.

Exponentials differ in their last bit from one library and one processor to the next; what IEEE 754 rounds does not, as long as
no product and sum are rounded as one. All is written once, for numpy arrays and for whatever else has these operators (names of
ONNX values, say); the error is below 3e-7 of the larger of 1 and x.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["LOGISTIC", "LOGISTIC_REACH", "NORMAL", "NORMAL_REACH", "RATIONAL_FUNCTIONS"]

LOGISTIC_REACH = 18.0
LOGISTIC = (
    (0.2499999701976776, 0.008358259685337543, 5.447815055958927e-05, 7.996919748620712e-08, 1.287553657441931e-11),
    (1.0, 0.11676628142595291, 0.001615128479897976, 5.111587142891949e-06, 3.0089104541275447e-09),
)  # fmt: skip
NORMAL_REACH = 5.8
NORMAL = (
    (0.3989422023296356, 0.035547029227018356, 0.004777958616614342, 0.0001854539441410452, 6.40548705632682e-06,
     2.1056447252476573e-08),
    (1.0, 0.255768358707428, 0.029607325792312622, 0.0019791561644524336, 7.864745566621423e-05, 1.1518582141434308e-06),
)  # fmt: skip
"""Numerators and denominators in the square of x, lowest power first, fitted for the smallest error within reach."""


def _polynomial(coefficients: Sequence[float], square: Any) -> Any:
    found = square * coefficients[-1] + coefficients[-2]
    for coefficient in reversed(coefficients[:-2]):
        found = found * square + coefficient
    return found


def _step(x: Any, reach: float, parts: tuple[Sequence[float], Sequence[float]]) -> Any:
    """0.5 + x P(x^2) / Q(x^2), of x within reach."""
    near = x.clip(-reach, reach)
    square = near * near
    return near * _polynomial(parts[0], square) / _polynomial(parts[1], square) + 0.5


def _sigmoid(x: Any) -> Any:
    return _step(x, LOGISTIC_REACH, LOGISTIC)


def _tanh(x: Any) -> Any:
    return _sigmoid(x * 2.0) * 2.0 - 1.0


def _silu(x: Any, beta: float = 1.0) -> Any:
    return x * _sigmoid(x if beta == 1 else x * beta)


def _gelu(x: Any) -> Any:
    return x * _step(x, NORMAL_REACH, NORMAL)


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
