"""Values of an ONNX graph in the making that are added and multiplied as numpy arrays are: formulas are written once for both."""

from __future__ import annotations

from typing import Union

from .emitter import Emitter

__all__ = ["Emitted"]

Operand = Union["Emitted", float]


class Emitted:
    """A float32 value by its name; each operation is a node of its own, so that each result is rounded."""

    def __init__(self, emitter: Emitter, name: str) -> None:
        self._emitter, self.name = emitter, name

    def _node(self, kind: str, first: Operand, second: Operand) -> Emitted:
        names = [
            each.name if isinstance(each, Emitted) else self._emitter.constant(each)
            for each in (first, second)
        ]
        return Emitted(self._emitter, self._emitter.node(kind, *names))

    def __add__(self, other: Operand) -> Emitted:
        return self._node("Add", self, other)

    def __sub__(self, other: Operand) -> Emitted:
        return self._node("Sub", self, other)

    def __rsub__(self, other: float) -> Emitted:
        return self._node("Sub", other, self)

    def __mul__(self, other: Operand) -> Emitted:
        return self._node("Mul", self, other)

    def __truediv__(self, other: Operand) -> Emitted:
        return self._node("Div", self, other)

    def clip(self, low: float, high: float) -> Emitted:
        """Between limits, as ``numpy.ndarray.clip``."""
        e = self._emitter
        return Emitted(e, e.node("Clip", self.name, e.constant(low), e.constant(high)))
