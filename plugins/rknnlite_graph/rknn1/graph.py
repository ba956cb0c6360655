"""From the description of a toolkit-1 file to a ``Graph``: nodes in running order, shapes inferred on the way.

What each operator becomes stands in the other modules here, a function per type.
"""

from __future__ import annotations

import importlib
import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelInvalid, ModelUnsupported, shown
from rknnlite.formats.rknn1.tensors import TensorEntry
from rknnlite.tensor import DType, QuantParams

from ..graph import Graph, Node, Tensor, TensorRole
from .description import Description, NodeEntry, Source

__all__ = ["GraphBuilder", "Lowering", "build_graph", "lowers"]

Array = NDArray[Any]
Lowering = Callable[["GraphBuilder", NodeEntry], None]
Shape = tuple[int, ...]
_LOWERINGS: dict[str, Lowering] = {}
_ROOMS = ("layers", "pools", "recurrent", "regions", "functions", "norms", "moves", "blocks")
_MOST_ELEMENTS = 1 << 31
_RELU = "RELU"


def lowers(*names: str) -> Callable[[Lowering], Lowering]:
    """Register what becomes of operators, by their names without ``VSI_NN_OP_``."""

    def wrap(function: Lowering) -> Lowering:
        for name in names:
            _LOWERINGS[name] = function
        return function

    return wrap


def build_graph(description: Description) -> Graph:
    """The graph of a plain file; raises ModelInvalid or ModelUnsupported naming the node."""
    for room in _ROOMS:
        importlib.import_module(f".{room}", __package__)
    return GraphBuilder(description).build()


class GraphBuilder:
    """Tensors and nodes as they come to be."""

    def __init__(self, found: Description) -> None:
        self.found = found
        self.tensors: list[Tensor] = []
        self.nodes: list[Node] = []
        self.fused: dict[int, NodeEntry] = {}
        self._norms: dict[int, int] = {}
        self._consts: dict[int, int] = {}
        self._ports: dict[tuple[int, int], int] = {}
        self._readers: Counter[tuple[int, int]] = Counter()
        self._after: dict[tuple[int, int], NodeEntry] = {}
        for node in self.found.nodes:
            for source in node.inputs.values():
                if source.node is not None:
                    self._readers[source.node, source.port] += 1
                    self._after[source.node, source.port] = node

    def build(self) -> Graph:
        """All nodes in their order."""
        for index in self.found.inputs:
            if not self.found.norms[index].shape:
                raise ModelInvalid(f"damaged file: the input {self.found.norms[index].name} has no axes")
            self._norm(index, TensorRole.INPUT)
        inputs = [self._graph_input(index) for index in self.found.inputs]
        done: set[int] = set()
        for entry in self.found.nodes:
            if entry.index not in done:
                self._lower(entry)
                done |= {entry.index, *(index for index, by in self.fused.items() if by is entry)}
        outputs = []
        for index in self.found.outputs:
            if index not in self._norms:
                raise ModelInvalid(
                    f"damaged file: no node computes the output {self.found.norms[index].name}"
                )
            tensor = self.tensors[self._norms[index]]
            tensor.role = tensor.role if tensor.role is TensorRole.INPUT else TensorRole.OUTPUT
            outputs.append(tensor.index)
        return Graph(self.tensors, self.nodes, inputs, outputs)

    def _lower(self, entry: NodeEntry) -> None:
        lowering = _LOWERINGS.get(entry.op[len("VSI_NN_OP_") :])
        if lowering is None or not entry.op.startswith("VSI_NN_OP_"):
            raise ModelUnsupported(
                f"node {entry.label()} has a type that the CPU reference does not know; run the model on its board, or "
                "report the type"
            )
        try:
            lowering(self, entry)
        except ModelInvalid:
            raise
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise self.fail(entry, f"its operands do not fit: {shown(error)}") from error

    def _graph_input(self, norm: int) -> int:
        """What a caller fills: NCHW for rank 4; a graph that wants NHWC gets it turned."""
        tensor = self.tensors[self._norms[norm]]
        if not (self.found.channels_last and len(tensor.shape) == 4):
            return tensor.index
        n, h, w, c = tensor.shape
        given = self.add(f"{tensor.name}_nchw", tensor.dtype, (n, c, h, w), TensorRole.INPUT, tensor.quant)
        tensor.role = TensorRole.ACTIVATION
        self.nodes.insert(
            0,
            Node(
                0,
                "Transpose",
                f"{tensor.name}_nhwc",
                [given],
                [tensor.index],
                {"perm": [0, 2, 3, 1]},
                on_npu=False,
            ),
        )
        return given

    # -- for the lowerings --------------------------------------------------------------------------------

    def fail(self, entry: NodeEntry, text: str) -> ModelInvalid:
        """An error that names the node."""
        return ModelInvalid(f"node {entry.label()}: {text}")

    def unsupported(self, entry: NodeEntry, text: str) -> ModelUnsupported:
        """The same for what is legal and not known well enough to be computed."""
        return ModelUnsupported(f"node {entry.label()}: {text}; run the model on its board")

    def input(self, entry: NodeEntry, slot: int = 0) -> int:
        """The tensor in a slot; raises ModelInvalid where there is none."""
        found = self.optional(entry, slot)
        if found < 0:
            raise self.fail(entry, f"input {slot} is missing")
        return found

    def optional(self, entry: NodeEntry, slot: int) -> int:
        """The tensor in a slot, -1 where there is none."""
        source = entry.inputs.get(slot)
        return -1 if source is None else self._source(entry, source)

    def constant(self, entry: NodeEntry, slot: int) -> TensorEntry:
        """The entry of a constant in a slot; raises ModelInvalid where there is none."""
        source = entry.inputs.get(slot)
        if source is None or source.const is None:
            raise self.fail(entry, f"input {slot} is no constant")
        self._const(source.const)  # part of the graph, which tells how much memory it takes
        return self.found.consts[source.const]

    def has(self, entry: NodeEntry, slot: int) -> bool:
        """Whether a slot is connected."""
        return slot in entry.inputs

    def is_between(self, entry: NodeEntry, slot: int) -> bool:
        """Whether what a slot reads is written by a node and nothing that callers see."""
        source = entry.inputs.get(slot)
        return (
            source is not None
            and source.node is not None
            and (source.node, source.port) in self.found.virtuals
        )

    def shape(self, index: int) -> Shape:
        """Of a tensor, in numpy's order."""
        return self.tensors[index].shape

    def relu_behind(self, entry: NodeEntry) -> NodeEntry:
        """The RELU that is the only reader of a node, which are one operation then; else the node itself."""
        behind = self._after.get((entry.index, 0))
        alone = self._readers[entry.index, 0] == 1 and not entry.outputs
        if behind is None or not alone or behind.op != f"VSI_NN_OP_{_RELU}" or behind.index in self.fused:
            return entry
        self.fused[behind.index] = entry
        return behind

    def type_of(self, entry: NodeEntry, port: int = 0) -> TensorEntry:
        """What the file says of the tensor that a port of a node writes; raises ModelInvalid where it says nothing."""
        norm = entry.outputs.get(port)
        found = self.found.virtuals.get((entry.index, port)) if norm is None else self.found.norms[norm]
        if found is None:
            raise self.fail(entry, f"output {port} has neither a size nor a type")
        return found

    def output(self, entry: NodeEntry, shape: Sequence[int], port: int = 0) -> int:
        """The tensor that a port of a node writes; raises ModelInvalid where the file has another shape for it."""
        norm = entry.outputs.get(port)
        if norm is not None:
            known = self.found.norms[norm]
            if math.prod(known.shape) != math.prod(shape):
                raise self.fail(entry, f"it gives {list(shape)}, the file says {list(known.shape)}")
            return self._norm(norm, TensorRole.ACTIVATION)
        virtual = self.type_of(entry, port)
        if math.prod(shape) > _MOST_ELEMENTS or min(shape, default=1) < 1:
            raise self.fail(entry, f"its result has the impossible shape {list(shape)}")
        made = self.add(
            f"{entry.name}_{port}" if port else entry.name, virtual.dtype, shape, quant=virtual.quant
        )
        self._ports[entry.index, port] = made
        return made

    def add(
        self,
        name: str,
        dtype: DType,
        shape: Sequence[int],
        role: TensorRole = TensorRole.ACTIVATION,
        quant: Optional[QuantParams] = None,
        load: Optional[Callable[[], Array]] = None,
    ) -> int:
        """A further tensor."""
        made = Tensor(len(self.tensors), name, dtype, tuple(shape), role, quant, load=load, zero_first=True)
        self.tensors.append(made)
        return len(self.tensors) - 1

    def helper(self, entry: NodeEntry, like: int, shape: Sequence[int], word: str) -> int:
        """A tensor between two nodes that one node of the file becomes, of the type of another."""
        model = self.tensors[like]
        return self.add(f"{entry.name}_{word}", model.dtype, shape, quant=model.quant)

    def number(self, entry: NodeEntry, values: Array, word: str) -> int:
        """A constant of real numbers."""
        stored = np.asarray(values, np.float32)
        return self.add(
            f"{entry.name}_{word}", DType.FLOAT32, stored.shape, TensorRole.CONST, load=lambda: stored
        )

    def emit(
        self, op: str, entry: NodeEntry, inputs: Sequence[int], outputs: Sequence[int], /, **attrs: Any
    ) -> Node:
        """A further node; those of one entry share its name."""
        node = Node(len(self.nodes), op, entry.name, list(inputs), list(outputs), attrs)
        self.nodes.append(node)
        return node

    def elements(self, entry: TensorEntry) -> Array:
        """The stored elements of a constant."""
        raw = self.found.data[entry.offset : entry.offset + entry.length]
        return np.frombuffer(raw, entry.dtype.numpy.newbyteorder("<")).reshape(entry.shape)

    def values(self, entry: NodeEntry, slot: int) -> Array:
        """The real values of a constant in a slot, float32; raises ModelInvalid where there is none."""
        found = self.constant(entry, slot)
        stored = self.elements(found)
        if found.quant is None:
            return stored.astype(np.float32)
        real: Array = (stored.astype(np.float64) - found.quant.zero_point) * found.quant.scale
        return real.astype(np.float32)

    # -- tensors ------------------------------------------------------------------------------------------

    def _source(self, entry: NodeEntry, source: Source) -> int:
        if source.norm is not None:
            if source.norm not in self._norms:
                raise self.fail(
                    entry, f"its input {self.found.norms[source.norm].name} is computed by nobody before it"
                )
            return self._norms[source.norm]
        if source.const is not None:
            return self._const(source.const)
        assert source.node is not None
        by = self._ports.get((source.node, source.port))
        if by is None:
            writer = self.found.nodes[source.node]
            norm = writer.outputs.get(source.port)
            if norm is None or norm not in self._norms:
                raise self.fail(
                    entry,
                    f"it reads output {source.port} of node {writer.label()}, which has not run before it",
                )
            by = self._norms[norm]
        return by

    def _norm(self, norm: int, role: TensorRole) -> int:
        if norm not in self._norms:
            entry = self.found.norms[norm]
            self._norms[norm] = self.add(entry.name, entry.dtype, entry.shape, role, entry.quant)
        return self._norms[norm]

    def _const(self, const: int) -> int:
        if const not in self._consts:
            entry = self.found.consts[const]
            load = partial(self.elements, entry)
            self._consts[const] = self.add(
                entry.name, entry.dtype, entry.shape, TensorRole.CONST, entry.quant, load
            )
            self.tensors[self._consts[const]].nbytes = entry.length
        return self._consts[const]
