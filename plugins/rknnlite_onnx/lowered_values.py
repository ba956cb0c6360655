"""The values of a graph while it is lowered: each in the forms that its readers ask for, converted once.

REAL values are float32 (integers and bools without steps keep their type). CENTRED are the integers of a quantised tensor
less their zero point, in float32, as the CPU reference carries them: padding is 0, products are exact below 2**24.
ELEMENTS are the same in 8 bits, always unsigned: int8 is raised by 128, since engines have fast products of unsigned
data and signed weights only. LAST are elements with the channels last (rank 4), as matrix products leave them.
"""

from __future__ import annotations

import enum
from typing import Any, Optional

import numpy as np
from onnx import TensorProto
from rknnlite_graph.graph import Graph, Tensor
from rknnlite_graph.lowering import Form

from rknnlite.quant import RANGES
from rknnlite.tensor import DType

from .emitter import Emitter

__all__ = ["FROM_LAST", "TO_LAST", "LoweredValues", "Rep", "centred_range", "element_zero"]

TO_LAST, FROM_LAST = [0, 2, 3, 1], [0, 3, 1, 2]
_RAISED = 128
_F16_LARGEST = 65504.0


class Rep(enum.Enum):
    """A form of a value."""

    REAL = "real"
    CENTRED = "centred"
    ELEMENTS = "elements"
    LAST = "channels last"


def centred_range(tensor: Tensor) -> tuple[float, float]:
    """Smallest and largest centred value of a quantised tensor."""
    assert tensor.quant is not None
    low, high = RANGES.get(tensor.dtype, (-(2**31), 2**31 - 1))
    return float(low - tensor.quant.zero_point), float(high - tensor.quant.zero_point)


def element_zero(tensor: Tensor) -> int:
    """Zero point of the unsigned elements of an 8-bit tensor."""
    assert tensor.quant is not None
    return tensor.quant.zero_point + (_RAISED if tensor.dtype is DType.INT8 else 0)


class LoweredValues:
    """Finds and stores values by tensor index.

    ``stored`` is the graph as the file has it, where ``graph`` is another form of it: the same nodes and tensor indices.
    """

    def __init__(self, emitter: Emitter, graph: Graph, form: Form, stored: Optional[Graph] = None) -> None:
        self.emitter, self.graph, self.form = emitter, graph, form
        self.stored = graph if stored is None else stored
        self._names: dict[tuple[int, Rep], str] = {}

    def is_quantised(self, index: int) -> bool:
        """Whether a tensor carries integers with steps in this graph."""
        return self.graph.tensors[index].quant is not None

    def in_bytes(self, index: int) -> bool:
        """Whether a tensor is to be carried in 8 bits."""
        tensor = self.graph.tensors[index]
        small = tensor.quant is not None and tensor.dtype in (DType.INT8, DType.UINT8)
        return small and self.form.in_bytes and 0 <= element_zero(tensor) <= 255

    def has(self, index: int, rep: Rep) -> bool:
        """Whether a value is there in a form without converting."""
        return (index, rep) in self._names

    def home(self, index: int) -> Rep:
        """The form in which a tensor is stored."""
        if self.in_bytes(index):
            return Rep.ELEMENTS
        return Rep.CENTRED if self.is_quantised(index) else Rep.REAL

    def put(self, index: int, rep: Rep, name: str) -> None:
        """Note a value."""
        self._names[index, rep] = name

    def snapshot(self) -> dict[tuple[int, Rep], str]:
        """All values that are there, for ``restore``."""
        return dict(self._names)

    def restore(self, names: dict[tuple[int, Rep], str]) -> None:
        """Forget all values that were not there then."""
        self._names = dict(names)

    def get(self, index: int, rep: Rep) -> str:
        """A value in a form, converted if need be."""
        key = (index, rep)
        if key not in self._names:
            self._names[key] = self._convert(index, rep)
        return self._names[key]

    def _convert(self, index: int, rep: Rep) -> str:
        tensor = self.graph.tensors[index]
        if tensor.quant is None:
            return self._names[index, Rep.REAL]
        if rep is Rep.REAL:
            return self.scaled(index, tensor.quant.scale)
        if rep is Rep.CENTRED:
            return self._widened(index, 1.0)
        if rep is Rep.LAST:
            return self.emitter.node("Transpose", self.get(index, Rep.ELEMENTS), perm=TO_LAST)
        if self.has(index, Rep.LAST):
            return self.emitter.node("Transpose", self._names[index, Rep.LAST], perm=FROM_LAST)
        return self._quantised(self.get(index, Rep.CENTRED), tensor, 1.0)

    def scaled(self, index: int, scale: float) -> str:
        """Centred values times ``scale``, rounded once as the reference does."""
        if not self.has(index, Rep.CENTRED) and (self.has(index, Rep.ELEMENTS) or self.has(index, Rep.LAST)):
            return self._widened(index, scale)
        centred = self.get(index, Rep.CENTRED)
        return centred if scale == 1 else self.emitter.node("Mul", centred, self.emitter.constant(scale))

    def scaled_last(self, index: int, scale: float) -> str:
        """The same of an 8-bit tensor with the channels last."""
        return self._widened(index, scale, Rep.LAST)

    def _widened(self, index: int, scale: float, rep: Rep = Rep.ELEMENTS) -> str:
        tensor, e = self.graph.tensors[index], self.emitter
        zero = e.constant(element_zero(tensor), np.uint8)
        return e.node("DequantizeLinear", self.get(index, rep), e.constant(scale), zero)

    def _quantised(self, name: str, tensor: Tensor, scale: float) -> str:
        e = self.emitter
        return e.node("QuantizeLinear", name, e.constant(scale), e.constant(element_zero(tensor), np.uint8))

    # -- storing -------------------------------------------------------------------------------------------

    def store_real(self, index: int, name: str, elements: Rep = Rep.ELEMENTS) -> None:
        """A real result: quantised, rounded to its floating type, or cast.

        ``elements`` LAST: its channels are last, and it is an 8-bit tensor.
        """
        tensor, e = self.graph.tensors[index], self.emitter
        if tensor.quant is None:
            self.put(index, Rep.REAL, self.rounded(name, tensor))
        elif self.in_bytes(index) and not tensor.zero_first:
            self.put(index, elements, self._quantised(name, tensor, tensor.quant.scale))
        else:
            steps = e.node("Div", name, e.constant(tensor.quant.scale))
            self._put_whole(index, self.clipped(self._whole(steps, tensor), tensor), elements)

    def store_centred(
        self,
        index: int,
        name: str,
        limits: tuple[float, float] | None = None,
        elements: Rep = Rep.ELEMENTS,
    ) -> None:
        """Centred values before rounding; ``limits`` where they are tighter, ``elements`` as for ``store_real``."""
        tensor = self.graph.tensors[index]
        low, high = centred_range(tensor)
        tight = limits is not None and (limits[0] > low or limits[1] < high)
        if self.in_bytes(index) and not tensor.zero_first:
            if tight:
                name = self.clipped(name, tensor, limits)
            self.put(index, elements, self._quantised(name, tensor, 1.0))
            return
        self._put_whole(
            index, self.clipped(self._whole(name, tensor), tensor, limits if tight else None), elements
        )

    def _whole(self, name: str, tensor: Tensor) -> str:
        """Centred values rounded: of halves the even centred one, or, with the zero point first, the even stored one."""
        e = self.emitter
        if not (tensor.zero_first and tensor.quant is not None and tensor.quant.zero_point):
            return e.node("Round", name)
        zero = e.constant(float(tensor.quant.zero_point))
        return e.node("Sub", e.node("Round", e.node("Add", name, zero)), zero)

    def _put_whole(self, index: int, name: str, elements: Rep) -> None:
        """Note rounded centred values; those with the channels last become elements at once."""
        if elements is Rep.LAST and self.in_bytes(index):
            self.put(index, Rep.LAST, self._quantised(name, self.graph.tensors[index], 1.0))
        else:
            self.put(index, Rep.CENTRED, name)

    def clipped(self, name: str, tensor: Tensor, limits: tuple[float, float] | None = None) -> str:
        """Centred values within what a tensor can store, or tighter limits."""
        low, high = limits or centred_range(tensor)
        return self.emitter.node("Clip", name, self.emitter.constant(low), self.emitter.constant(high))

    def rounded(self, name: str, tensor: Tensor) -> str:
        """A value without steps as its tensor stores it."""
        e = self.emitter
        if tensor.dtype is DType.FLOAT16:
            return e.cast(e.cast(name, np.float16), np.float32)
        if tensor.dtype is DType.BFLOAT16:  # numpy has no such type
            return e.cast(e.node("Cast", name, to=int(TensorProto.BFLOAT16)), np.float32)
        if tensor.dtype is DType.FLOAT32:
            return name
        return e.cast(name, tensor.dtype.numpy)

    def typed(self, index: int) -> Any:
        """numpy's element type of a tensor's REAL values."""
        tensor = self.graph.tensors[index]
        floating = tensor.quant is not None or tensor.dtype.is_float
        return np.dtype(np.float32) if floating else np.dtype(tensor.dtype.numpy)
