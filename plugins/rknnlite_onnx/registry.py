"""Who writes which type of node, and what a writer sees of its node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_graph.graph import Accumulator, Tensor, TensorRole
from rknnlite_graph.lowering import Form, NotLowered
from rknnlite_graph.node_view import NodeView

from rknnlite.tensor import DType

from .emitter import Emitter
from .lowered_values import LoweredValues, Rep

__all__ = ["LoweredNode", "Writer", "hangs_on_engines", "lowers", "writer_of"]

Array = NDArray[Any]
_SHARED = 1 << 14
"""Elements that are worth another thread."""


@dataclass
class LoweredNode:
    """One node that is being written: its operands by position, and where results go.

    Names are those of ONNX values. ``emit`` adds a node; ``real``, ``centred`` and ``stored`` ask for operands.
    """

    view: NodeView
    values: LoweredValues

    @property
    def emitter(self) -> Emitter:
        """Where nodes go."""
        return self.values.emitter

    @property
    def form(self) -> Form:
        """What is being written."""
        return self.values.form

    @property
    def exact(self) -> bool:
        """Whether the numbers are to be the CPU reference's to the byte; else engines compute as they like."""
        return self.form.as_the_npu

    @property
    def precise(self) -> bool:
        """Whether there are integers of 8 bits behind it that may not hang on who computes; see ``Form``."""
        return self.form.precise and self.view.behind_bytes

    @property
    def attrs(self) -> Any:
        """Attributes of the node."""
        return self.view.attrs

    @property
    def stepped_view(self) -> NodeView:
        """The node with the steps that its values are to have: in the QDQ form those of the file, which a float graph has not."""
        if self.form is not Form.QDQ:
            return self.view
        stored, index = self.values.stored, self.view.node.index
        return next((NodeView(stored, node) for node in stored.nodes if node.index == index), self.view)

    @property
    def parameters(self) -> dict[str, Any]:
        """What the table of operators lists for this type; see ``NodeView``."""
        return self.view.parameters

    @property
    def outputs(self) -> list[Tensor]:
        """Tensors of the results."""
        return self.view.outputs

    def small(self, position: int) -> bool:
        """Whether an operand is there and quantised in 8 bits."""
        return self.has(position) and self.view.tensor(position).in_eight_bits

    def whole(self, position: int) -> str:
        """An operand of 8 bits less its zero point, in float32."""
        if not self.view.is_const(position):
            return self.centred(position)
        tensor = self.view.tensor(position)
        assert tensor.quant is not None
        return self.const(tensor.value().astype(np.float32) - np.float32(tensor.quant.zero_point))

    def step(self, position: int) -> float:
        """The scale of a quantised operand."""
        params = self.view.tensor(position).quant
        assert params is not None
        return params.scale

    def looked_up(self, table: Array, places: str, shape: Sequence[int]) -> str:
        """Elements of a flat stored array at places (int32) of a shape.

        onnxruntime copies single elements in Gather, five times as slowly as in GatherElements; that shares rows among threads.
        """
        size = prod(shape)
        rows = next(n for n in (16, 12, 8, 6, 4, 3, 2, 1) if size % n == 0) if size >= _SHARED else 1
        flat = self.emit("Reshape", places, self.ints(rows, size // rows))
        stored = self.const(np.tile(table, (rows, 1)), table.dtype)
        return self.emit("Reshape", self.emit("GatherElements", stored, flat, axis=1), self.ints(*shape))

    def refuse(self, why: str) -> NotLowered:
        """To be raised: this node cannot be written."""
        return NotLowered(why)

    def emit(self, kind: str, *inputs: str, **attrs: Any) -> str:
        """Add a node with one result."""
        return self.emitter.node(kind, *inputs, **attrs)

    def const(self, value: Any, dtype: Any = np.float32) -> str:
        """A stored array or number, float32 unless told otherwise."""
        return self.emitter.constant(value, dtype)

    def ints(self, *values: int) -> str:
        """A stored list of int64."""
        return self.emitter.ints(values)

    # -- operands ------------------------------------------------------------------------------------------

    def index(self, position: int) -> int:
        """Tensor index of an operand."""
        return self.view.tensor(position).index

    def has(self, position: int) -> bool:
        """Whether an operand is given."""
        return self.view.has(position)

    def real(self, position: int) -> str:
        """An operand as float32 reals."""
        if self.view.is_const(position):
            return self.const(self.constant(position))
        index = self.index(position)
        name = self.values.get(index, Rep.REAL)
        return name if self.values.typed(index) == np.float32 else self.emitter.cast(name, np.float32)

    def native(self, position: int) -> str:
        """An operand as reals, or as integers or bools where it has no steps."""
        if self.view.is_const(position):
            value = self.view.constant(position)
            return self.const(value, value.dtype)
        return self.values.get(self.index(position), Rep.REAL)

    def typed(self, position: int) -> Any:
        """numpy's element type of ``native``."""
        if self.view.is_const(position):
            return self.view.constant(position).dtype
        return self.values.typed(self.index(position))

    def centred(self, position: int) -> str:
        """A quantised operand as centred integers in float32."""
        return self.values.get(self.index(position), Rep.CENTRED)

    def constant(self, position: int) -> Array:
        """The real values of a constant operand, rounded to float16 where layers on the NPU do that."""
        value, node = self.view.constant(position), self.view.node
        norm = node.fused is not None and node.fused.accumulator is Accumulator.BATCH_NORM
        rounded = node.on_npu and self.outputs[0].dtype is DType.FLOAT16 and value.dtype == np.float32
        return value.astype(np.float16).astype(np.float32) if rounded and not norm else value

    # -- results -------------------------------------------------------------------------------------------

    def store(self, name: str, position: int = 0, nan: bool = False) -> None:
        """A real result; with ``nan`` one that may be NaN, which quantised tensors store as 0."""
        target = self.outputs[position]
        if nan and target.quant is not None:
            zero = self.const(-target.quant.zero_point * target.quant.scale)
            name = self.emit("Where", self.emit("IsNaN", name), zero, name)
        self.values.store_real(target.index, name)

    def store_finite(self, name: str, position: int = 0) -> None:
        """A real result that is NaN only where a floating operand is not finite."""
        live = [tensor for i, tensor in enumerate(self.view.inputs) if tensor and not self.view.is_const(i)]
        self.store(name, position, nan=any(tensor.quant is None for tensor in live))

    def store_whole(self, name: str, position: int = 0) -> None:
        """A bool or integer result, whatever its tensor stores it as."""
        whole = self.values.typed(self.outputs[position].index).kind in "iub"
        self.store(name if whole else self.emitter.cast(name, np.float32), position)

    def store_cut_off(self, name: str, position: int = 0) -> None:
        """A real result that integer tensors cut off: towards 0, saturated, NaN as 0."""
        kind = self.values.typed(self.outputs[position].index)
        if kind.kind in "iu":
            limits = np.iinfo(kind)
            wide = self.emitter.cast(name, np.float64)
            wide = self.emit("Where", self.emit("IsNaN", wide), self.const(0.0, np.float64), wide)
            # the largest int64 is no double: the one below it
            high = float(limits.max) if kind.itemsize < 8 else np.nextafter(float(limits.max), 0.0)
            low = self.const(float(limits.min), np.float64)
            name = self.emit("Clip", wide, low, self.const(high, np.float64))
        self.store(name, position)

    def same_steps(self, source: int = 0, target: int = 0) -> bool:
        """Whether an operand and a result are stored alike, so that elements may move as they are."""
        x = self.view.tensor(source)
        unrounded = x.role is TensorRole.INPUT and x.dtype.is_float
        return self.same_type(source, target) and not unrounded

    def same_type(self, source: int = 0, target: int = 0) -> bool:
        """Whether an operand and a result have the same type and steps; a floating input of the network is not rounded yet."""
        x, y = self.view.tensor(source), self.outputs[target]
        return x.quant == y.quant and x.dtype is y.dtype

    def moving(self, position: int = 0) -> tuple[str, Optional[Rep]]:
        """An operand to be moved: as stored (and in which form), or in real values (None)."""
        if self.view.is_const(position):
            return self.native(position), None
        index = self.index(position)
        if not all(self.same_steps(position, i) for i in range(len(self.outputs))):
            return self.native(position), None
        rep = self.values.home(index)
        for other in (Rep.ELEMENTS, Rep.CENTRED):
            if rep is not Rep.REAL and self.values.has(index, other):
                rep = other  # what is there already moves for nothing
                break
        return self.values.get(index, rep), rep

    def moved(self, name: str, rep: Optional[Rep], position: int = 0) -> None:
        """Note the result of a move that began with ``moving``."""
        if rep is None:
            self.store(name, position)
        else:
            self.values.put(self.outputs[position].index, rep, name)


Writer = Callable[[LoweredNode], None]
_WRITERS: dict[str, Writer] = {}
_PRECISE: set[str] = set()


def lowers(*kinds: str, precise: bool = False) -> Callable[[Writer], Writer]:
    """Register who writes nodes of these types.

    ``precise``: so that every engine has the same bytes of sums and functions of 8 bits, or not at all.
    """

    def wrap(writer: Writer) -> Writer:
        for kind in kinds:
            _WRITERS[kind] = writer
        if precise:
            _PRECISE.update(kinds)
        return writer

    return wrap


def hangs_on_engines(node: LoweredNode) -> bool:
    """Whether results of 8 bits would depend on who computes: they come from sums or functions of floats."""
    return node.form.precise and node.view.node.op not in _PRECISE and node.view.floats_behind_bytes


def writer_of(kind: str) -> Optional[Writer]:
    """Who writes nodes of a type, None where nobody does."""
    return _WRITERS.get(kind)
