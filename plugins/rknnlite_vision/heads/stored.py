"""Numbers of an output as they are stored: a threshold in that form, and the real numbers of what passes."""

from __future__ import annotations

from typing import Any, Union

import numpy as np
from numpy.typing import NDArray

from rknnlite.tensor import DType, TensorAttr

__all__ = ["Stored", "logit", "sigmoid"]

Array = NDArray[Any]
_REMEMBERED = 64
"""Thresholds of an output that are looked up once: a server is asked for any."""


def sigmoid(values: Array) -> Array:
    """``1 / (1 + exp(-values))``, of numbers of any size, in float32."""
    with np.errstate(over="ignore"):
        result: Array = 1 / (1 + np.exp(-values.astype(np.float32, copy=False)))
    return result


def logit(score: float) -> float:
    """What a sigmoid makes ``score`` of, a little less: scores of what passes are to be compared again."""
    if not 0 < score < 1:
        return -np.inf if score <= 0 else 15.0
    return float(np.log(score / (1 - score))) - 1e-4


class Stored:
    """How the numbers of one output are stored, and whether a sigmoid is still to come.

    Arrays may be of the output's own element type or float32, whichever ``Context.infer`` was asked for.

    Attributes:
        attr: of the output.
        logits: a sigmoid turns the numbers into scores.

    Examples:
        >>> from rknnlite.tensor import Layout, QuantParams
        >>> attr = TensorAttr(0, "scores", (1, 80, 8, 8), DType.INT8, Layout.NCHW, QuantParams(1 / 256, -128))
        >>> Stored(attr).least(0.25, np.dtype("int8")), Stored(attr).real(np.array([-64], np.int8))
        (-64, array([0.25], dtype=float32))
    """

    def __init__(self, attr: TensorAttr, logits: bool = False) -> None:
        self.attr, self.logits = attr, logits
        scale, zero = attr.quant or (1.0, 0)
        self.scale, self.zero = np.float32(scale), np.float32(zero)
        self._least: dict[tuple[float, str], Union[int, float]] = {}

    @property
    def range(self) -> tuple[float, float]:
        """Least and greatest real number that integers of this output can mean; without bounds for floats."""
        if self.attr.dtype.is_float:
            return -np.inf, np.inf
        limits = np.iinfo(self.attr.dtype.numpy.str)
        return tuple(float((np.float32(q) - self.zero) * self.scale) for q in (limits.min, limits.max))  # type: ignore[return-value]

    @property
    def step(self) -> float:
        """The difference of two neighbours; 0 for floats."""
        return 0.0 if self.attr.dtype.is_float else float(self.scale)

    def real(self, values: Array) -> Array:
        """The real numbers, float32; before the sigmoid where one is to come."""
        if values.dtype.kind == "f":
            return values.astype(np.float32, copy=False)
        if self.attr.dtype == DType.BFLOAT16:
            wide: Array = (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
            return wide
        return (values.astype(np.float32) - self.zero) * self.scale

    def scores(self, values: Array) -> Array:
        """The real numbers behind the sigmoid, if there is one."""
        real = self.real(values)
        return sigmoid(real) if self.logits else real

    def ordered(self, values: Array) -> Array:
        """Numbers that compare as what they mean: themselves, but bfloat16, which numpy has as integers, becomes float32."""
        return self.real(values) if self.attr.dtype == DType.BFLOAT16 else values

    def least(self, score: float, dtype: np.dtype[Any]) -> Union[int, float]:
        """The least number of ``ordered`` arrays of type ``dtype`` whose score is at least ``score``.

        Of integers the first that passes, one above the greatest where none does; of floats before a sigmoid a little less.
        """
        key = (score, dtype.str)
        if key not in self._least:
            if len(self._least) >= _REMEMBERED:
                self._least.clear()
            self._least[key] = self._found(score, dtype)
        return self._least[key]

    def _found(self, score: float, dtype: np.dtype[Any]) -> Union[int, float]:
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            scores = self.scores(np.arange(limits.min, limits.max + 1))
            return int(limits.min + np.searchsorted(scores, np.float32(score)))
        return logit(score) if self.logits else float(np.float32(score))
