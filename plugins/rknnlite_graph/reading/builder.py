"""Builds a ``Graph`` from the tables of a flatbuffer container: tensors, nodes, decoded convolutions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import chain
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelInvalid, ModelUnsupported
from rknnlite.formats.flat_model import ELEMENT_TYPES, FlatModel, quant_of, range_of, shape_of
from rknnlite.formats.flatbuffer import Table
from rknnlite.formats.frame import MINI
from rknnlite.formats.model import NO_ATTRIBUTES, Attributes
from rknnlite.formats.slots import GraphSlot, NodePlace, NodeSlot, RootSlot, TensorKind, TensorSlot
from rknnlite.quant import RANGES
from rknnlite.tensor import DType, QuantParams

from ..graph import RECURRENT_GATES, Graph, Node, Tensor, TensorRole
from ..operators import TABLE_FUNCTIONS, LeftOut, operator_of
from ..shape_rules import check_shapes
from . import weights
from .attributes import LEFT_OUT, MINI_UNIONS, UNIONS, read_attributes, unread_attributes
from .blob_locations import lent, parts_of
from .convolutions import ConvReader
from .fused_ops import fused_op
from .graph_checks import check_constants, check_inputs, check_operands
from .inferred_attributes import SuppliedAttributes, axis_inside, inferred_attributes
from .npu_families import family_of
from .output_stages import StageReader
from .tensor_storage import Storage
from .unverified_facts import about_attributes, about_container, about_defaults, about_registers, say

__all__ = ["build_graph"]

_ROLES = {
    TensorKind.INPUT: TensorRole.INPUT, TensorKind.OUTPUT: TensorRole.OUTPUT, TensorKind.HELPER: TensorRole.HELPER,
    TensorKind.ACTIVATION: TensorRole.ACTIVATION, TensorKind.WEIGHT: TensorRole.CONST,
    TensorKind.OPERAND: TensorRole.CONST,
}  # fmt: skip
_NOT_GIVEN = -1  # instead of a tensor number
_SCRATCH = "_compute_zone"  # behind the name of the first result of a recurrent node
_BYTES_PER_TABLE = 24  # no tensor or node takes less of a genuine file
_READINGS = 4  # genuine files take 0.2 of their size for names, dims and attributes


def build_graph(model: FlatModel, index: int, attributes: Attributes = NO_ATTRIBUTES) -> Graph:
    """Read graph ``index``; everything the file claims is checked. See ``read_graph``."""
    graphs = list(model.flat.tables(RootSlot.GRAPHS))
    if not 0 <= index < len(graphs):
        raise ModelInvalid(f"the model has {len(graphs)} graphs, not one numbered {index}")
    try:
        graph = _Builder(model, graphs[index], graphs[0], attributes).build()
    except (ValueError, IndexError, TypeError, KeyError, ZeroDivisionError, OverflowError) as error:
        raise ModelInvalid(
            f"damaged file: its graph cannot be read ({type(error).__name__}: {error}); copy it again"
        ) from error
    graph.doubts = [*about_container(model.container, model.toolkit_version), *model.doubts]
    say(graph, model.logged_guesses)
    return graph


class _Builder:
    """Holds what the parts of one graph need while they are read."""

    def __init__(self, model: FlatModel, graph: Table, first: Table, attributes: Attributes) -> None:
        self.family = family_of(model.family)
        self.limit = max(64, model.file_size // _BYTES_PER_TABLE)
        self.unread = _READINGS * model.file_size
        self.graph = graph
        self.complete = model.complete_attributes
        self.unions = MINI_UNIONS if model.container == MINI else UNIONS
        self.supplied = SuppliedAttributes(attributes)
        self.reshaped: dict[int, tuple[int, ...]] = {}  # result of a Reshape -> the shape before
        self.source = f"container version {model.container:#x} (toolkit {model.toolkit_version})"
        tensors, nodes = graph.count(GraphSlot.TENSORS), graph.count(GraphSlot.NODES)
        if max(tensors, nodes) > self.limit:
            raise ModelInvalid(f"damaged file: {tensors} tensors and {nodes} nodes in so small a file")
        self.tables = list(graph.tables(GraphSlot.TENSORS))
        owners = [] if graph is first else list(first.tables(GraphSlot.TENSORS))
        for table in chain(self.tables, owners):
            numbers = table.count(TensorSlot.NATIVE_DIMS) + table.count(TensorSlot.DIMS)
            self._charge(table.count(TensorSlot.NAME) + 4 * numbers)
        parts = parts_of(model)
        self.storage = parts.storage(self.tables, owners)
        if model.master is not None:
            self.storage.borrow(lent(model.master))
        self.tensors = [self._tensor(i, table) for i, table in enumerate(self.tables)]
        self.program = parts.program(self.storage, graph)
        self.stages = StageReader(self.family, self.program, self.storage.named)
        self.convolutions = ConvReader(self.family, self.tensors, self.tables, self.storage)

    # -- tensors ------------------------------------------------------------------------------------------

    def _charge(self, nbytes: int) -> None:
        """Count what is read: tables that point to the same contents must not multiply a file in memory."""
        self.unread -= nbytes
        if self.unread < 0:
            raise ModelInvalid("damaged file: its tables share names, dims or attributes")

    def _tensor(self, index: int, table: Table) -> Tensor:
        kind, name = table.i8(TensorSlot.KIND), table.string(TensorSlot.NAME)
        code = table.i8(TensorSlot.TYPE)
        dtype = ELEMENT_TYPES.get(code, DType.UINT8)
        role = _ROLES.get(kind, TensorRole.HELPER)
        if role in (TensorRole.INPUT, TensorRole.OUTPUT, TensorRole.ACTIVATION) and code not in ELEMENT_TYPES:
            raise ModelUnsupported(f"tensor {name}: element type {code} is not supported")
        shape = shape_of(table, TensorSlot.DIMS, name)
        native = tuple(table.i32s(TensorSlot.NATIVE_DIMS)[:256].tolist())
        quant = quant_of(table, dtype, name)
        tensor = Tensor(
            index=index, name=name, dtype=dtype, shape=shape, role=role, quant=quant,
            value_range=range_of(table, quant), native_shape=native, nbytes=table.i32(TensorSlot.BYTES),
            offset=table.i32(TensorSlot.OFFSET),
        )  # fmt: skip
        nothing = role is TensorRole.CONST and prod(shape) > 0 and self.storage.absent(index)
        if name.startswith("empty_placeholder") or nothing:
            tensor.role = TensorRole.HELPER
        elif role is TensorRole.CONST:
            tensor.load = self._loader(tensor)
        return tensor

    def _loader(self, tensor: Tensor) -> Callable[[], NDArray[Any]]:
        """Decodes a constant; it holds a copy of the tensor, because the tensor will hold the loader."""
        return partial(_constant, self.storage, self.tables[tensor.index], replace(tensor, load=None))

    # -- nodes --------------------------------------------------------------------------------------------

    def build(self) -> Graph:
        """All nodes in order, then the checks that need the whole graph."""
        inputs, outputs = (
            self._indices(self.graph, GraphSlot.INPUTS),
            self._indices(self.graph, GraphSlot.OUTPUTS),
        )
        check_inputs(inputs, self.tensors)
        known = set(inputs)
        self.producers = {
            tensor: number
            for number, table in enumerate(self.graph.tables(GraphSlot.NODES))
            for tensor in self._indices(table, NodeSlot.OUTPUTS, least=_NOT_GIVEN)
            if tensor >= 0
        }
        nodes = []
        for index, table in enumerate(self.graph.tables(GraphSlot.NODES)):
            if table.empty or not table.string(NodeSlot.TYPE):
                continue
            node = self._node(index, table, known)
            if node.op == "InputOperator":
                check_inputs(inputs, self.tensors, node.outputs)
            known.update(node.outputs)
            nodes.append(node)
        for tensor in outputs:
            if tensor not in known:
                raise ModelInvalid(
                    f"output {self.tensors[tensor].name} is produced by no node: the converter dropped an operator; "
                    "convert the network again and read the converter's warnings"
                )
        self.supplied.check(nodes)
        return Graph(self.tensors, nodes, inputs, outputs, measured_on=self.family.measured_on)

    def _indices(self, table: Table, slot: int, least: int = 0) -> list[int]:
        numbers: list[int] = table.i32s(slot).tolist()
        if len(numbers) > self.limit or any(not least <= i < len(self.tensors) for i in numbers):
            raise ModelInvalid(
                f"damaged file: tensor numbers {numbers[:8]} (there are {len(self.tensors)} tensors)"
            )
        return numbers

    def _node(self, index: int, table: Table, known: set[int]) -> Node:
        texts = table.count(NodeSlot.TYPE) + table.count(NodeSlot.NAME) + table.count(NodeSlot.DOCUMENT)
        self._charge(texts + 4 * (table.count(NodeSlot.INPUTS) + table.count(NodeSlot.OUTPUTS)))
        op, name = table.string(NodeSlot.TYPE), table.string(NodeSlot.NAME)
        fused = fused_op(op)
        weighted = fused is not None and fused.convolves
        listed = self._indices(table, NodeSlot.INPUTS, least=_NOT_GIVEN)
        inputs = [
            i if i in known or self._stored(i, weighted and place in (1, 2)) else _NOT_GIVEN
            for place, i in enumerate(listed)
        ]
        while inputs and inputs[-1] < 0:
            inputs.pop()  # scratch tensors that the compiler appends
        outputs = self._outputs(table, op, listed)
        if op != "InputOperator" and any(i in known for i in outputs):
            raise ModelInvalid(
                f'node {op} "{name}" writes a tensor that exists already: the graph has a cycle'
            )
        code, union = table.i8(NodeSlot.UNION_CODE), table.table(NodeSlot.UNION)
        node = Node(
            index=index, op=op, name=name or (self.tensors[outputs[0]].name if outputs else ""),
            inputs=inputs, outputs=outputs, fused=fused, on_npu=table.i8(NodeSlot.PLACE) == NodePlace.NPU,
            attrs=read_attributes(table, op, code, union, self.unions),
            doubts=unread_attributes(op, code, union, self.unions),
        )  # fmt: skip
        if op in ("InputOperator", "OutputOperator"):
            return node
        node.doubts += about_attributes(node)
        place = table.i8(NodeSlot.PLACE)
        if place not in (NodePlace.CPU, NodePlace.NPU):
            node.doubts.append(f"the code {place} for where it runs is not known; the CPU is taken")
        if op == "Reshape" and inputs and inputs[0] >= 0 and outputs:
            self.reshaped[outputs[0]] = self.tensors[inputs[0]].shape
        if not self.complete and (not node.attrs or LEFT_OUT.get(op, "") not in ("", *node.attrs)):
            node.attrs = {**node.attrs, **self._attributes(node)}
            node.doubts += about_defaults(node)
        if not outputs:
            raise ModelInvalid(f"node {node.label()} has no outputs")
        check_operands(node, listed, self.tensors, known, self.producers)
        if node.on_npu:
            check_constants(node, [self.tensors[i] if i >= 0 else None for i in node.inputs])
            self._decode(node)
        elif fused is not None and weighted:
            self.convolutions.read_plain(node, fused)
        elif op in RECURRENT_GATES:
            self._recurrent(node)
        else:
            self._round_constants(node)
        operands = [self.tensors[i] if i >= 0 else None for i in node.inputs]
        check_shapes(node, operands, [self.tensors[i] for i in node.outputs])
        return node

    def _outputs(self, table: Table, op: str, operands: list[int]) -> list[int]:
        """Results of a node. Those that nobody reads are not in the file: they get tensors of their own."""
        partial_results = op == "Split" or op in RECURRENT_GATES
        if not partial_results or min(operands[:1], default=_NOT_GIVEN) < 0:
            return self._indices(table, NodeSlot.OUTPUTS)
        outputs = self._indices(table, NodeSlot.OUTPUTS, least=_NOT_GIVEN)
        if all(i >= 0 for i in outputs) or all(i < 0 for i in outputs):
            return [i for i in outputs if i >= 0]
        from .missing_shapes import recurrent_shapes, split_shapes  # few networks leave results out

        there = self.tensors[next(i for i in outputs if i >= 0)]
        whole = self.tensors[operands[0]]
        if op == "Split":
            sizes = self.tensors[operands[1]] if len(operands) > 1 and operands[1] >= 0 else None
            return self._filled(outputs, there.name, split_shapes(whole, there, sizes, len(outputs)))
        while outputs[-1] < 0:
            outputs.pop()
        names = [self.tensors[i].name for i in operands if i >= 0]
        name = next((n[: -len(_SCRATCH)] for n in names if n.endswith(_SCRATCH)), there.name)
        return self._filled(outputs, name, recurrent_shapes(whole, there, len(outputs)))

    def _filled(self, outputs: list[int], name: str, shapes: list[tuple[int, ...]]) -> list[int]:
        """Tensors for the places that the file leaves out; the first is called ``name`` unless another result is."""
        plain = all(self.tensors[i].name != name for i in outputs if i >= 0)
        return [
            i if i >= 0 else self._unread(name if plain and not place else f"{name}:{place}", shapes[place])
            for place, i in enumerate(outputs)
        ]

    def _unread(self, name: str, shape: tuple[int, ...]) -> int:
        """Add a tensor that the file does not have; its number."""
        role = TensorRole.ACTIVATION
        self.tensors.append(Tensor(len(self.tensors), name, DType.FLOAT32, shape, role, native_shape=shape))
        return len(self.tensors) - 1

    def _attributes(self, node: Node) -> dict[str, Any]:
        """Attributes that the file leaves out: told by the caller, or by the tensors of the node."""
        told = self.supplied.of(node)
        if told is not None:
            network = self.reshaped.get(node.inputs[0]) if node.inputs else None
            if network is not None and "axis" in told:
                told["axis"] = axis_inside(told["axis"], network, self.tensors[node.inputs[0]].shape)
            return told
        operands = [self.tensors[i] for i in node.inputs if i >= 0]
        found = inferred_attributes(node, operands, [self.tensors[i] for i in node.outputs])
        node.attrs_left_out = not found
        row = operator_of(node.op)
        if row is not None and row.left_out is LeftOut.REFUSED and not found:
            raise ModelUnsupported(
                f"node {node.label()}: {self.source} does not store the attributes of {node.op}; if you know them, "
                f'open the model with attributes={{"{node.name}": {{...}}}} (ONNX names); else end the network before '
                "this node, or convert it with rknn-toolkit2 1.6 or newer for an RK35xx SoC"
            )
        return found

    def _stored(self, index: int, weight: bool) -> bool:
        """Whether an operand is a constant; dynamic models keep pooling weights among the helper tensors."""
        if index < 0:
            return False
        tensor = self.tensors[index]
        if weight and tensor.role is TensorRole.HELPER and tensor.shape and self.storage.has(index):
            tensor.role = TensorRole.CONST
        return tensor.role is TensorRole.CONST

    def _decode(self, node: Node) -> None:
        """What the registers and stored operands of an NPU node say."""
        output = self.tensors[node.outputs[0]].name
        source = self.tensors[node.inputs[0]].dtype if node.inputs and node.inputs[0] >= 0 else DType.INT8
        operand = self.tensors[node.inputs[-1]].name if node.inputs and node.inputs[-1] >= 0 else ""
        regs = self.stages.registers(node.index, output)
        node.stage = self.stages.read(node, regs, output, source, operand)
        fused = node.fused
        row = TABLE_FUNCTIONS.get(fused.function) if fused and fused.convolves else operator_of(node.op)
        if row is not None and row.in_table:
            from .estimated_parameters import read_parameter  # not all networks have such layers

            read_parameter(node, row, self.tensors[node.outputs[0]], self.family.places, regs, self.supplied)
        self._scale_of_constant(node)
        if self.family.mini:
            from .matmul_scales import hidden_attributes  # other files tell them

            node.attrs = {**hidden_attributes(self.family, self.program, node, self.tensors), **node.attrs}
        if node.fused is not None and node.fused.convolves:
            node.doubts += about_registers(self.family.word, regs)
            self.convolutions.read(node, node.fused, regs)
            return
        node.doubts += about_registers(self.family.word, regs, node.op, convolution=False)
        if node.op in RECURRENT_GATES:
            self._recurrent(node)
        elif node.op in ("exSDPAttention", "exMatMul") and min(node.inputs, default=-1) >= 0:
            from .products import read_product  # few networks have such nodes

            read_product(node, self.tensors, self.storage, self.family, self.program, regs)

    def _round_constants(self, node: Node) -> None:
        """Float constants of a layer on the CPU: where the file names their step, the vendor's simulator rounds them to
        it. Single numbers stay."""
        dtype = self.tensors[node.outputs[0]].dtype
        for tensor in (self.tensors[i] for i in node.inputs if i >= 0):
            if tensor.load is None or tensor.dtype is not DType.FLOAT32 or prod(tensor.shape) < 2:
                continue
            table = self.tables[tensor.index]
            scales, zeros = table.f32s(TensorSlot.SCALES), table.i32s(TensorSlot.ZERO_POINTS)
            if dtype in RANGES and len(scales) == len(zeros) == 1 and 0 < scales[0] < np.inf:
                step = QuantParams(float(scales[0]), int(zeros[0]))
                tensor.load = partial(weights.in_steps, tensor.load, step, dtype)

    def _scale_of_constant(self, node: Node) -> None:
        """Shape and steps of a stored operand that come of the node it takes part in.

        Files of the mini format give an int32 scalar in a sum no scale. None gives dims to numbers for each item of a batch.
        """
        output, word = self.tensors[node.outputs[0]], node.op.replace("Relu", "")
        if word not in ("Add", "Sub", "Mul") or node.stage is None:
            return
        for tensor in (self.tensors[i] for i in node.inputs if i >= 0):
            if tensor.role is TensorRole.CONST and not tensor.shape and output.shape[:1] > (1,):
                from .missing_shapes import give_items  # few networks have such constants

                give_items(tensor, self.storage.of(tensor.index), output.shape)
            whole = tensor.role is TensorRole.CONST and tensor.quant is None and not tensor.dtype.is_float
            if not whole or output.quant is None:
                continue
            if word != "Mul" and tensor.dtype is DType.INT32:
                tensor.quant = QuantParams(node.stage.scale * output.quant.scale, 0)
            other = self.tensors[node.inputs[0]].quant
            if word == "Mul" and tensor.dtype is DType.INT16 and other is not None:
                tensor.quant = QuantParams(node.stage.scale * output.quant.scale / other.scale, 0)

    def _recurrent(self, node: Node) -> None:
        from .recurrent_weights import read_plain_recurrent, read_recurrent  # few networks have such nodes

        given = [i >= 0 for i in node.inputs[:4]]
        if given[:3] != [True] * 3 or (node.on_npu and not all(given[3:] or [False])):
            raise ModelInvalid(f"node {node.label()}: x, W, R or B is missing")
        tensors = [self.tensors[i] for i in node.inputs[:4] if i >= 0]
        if not node.on_npu:
            tables = [self.tables[tensor.index] for tensor in tensors[1:]]
            steps = [(t.f32s(TensorSlot.SCALES), t.i32s(TensorSlot.ZERO_POINTS)) for t in tables]
            node.recurrent = read_plain_recurrent(node, tensors, steps)
            node.inputs = [node.inputs[0], *node.inputs[4:7]]
            return
        blobs = [self.storage.of(t.index) for t in tensors[1:]]
        output = self.tensors[node.outputs[0]]
        with_constants = partial(self.stages.of_gates, output.name)
        state = self.tensors[node.inputs[5]] if len(node.inputs) > 5 and node.inputs[5] >= 0 else None
        node.recurrent = read_recurrent(
            node, tensors, blobs, output.shape, self.family, self.program, with_constants, state
        )
        lengths = node.inputs[4] if len(node.inputs) > 4 else -1
        if lengths >= 0 and self.tensors[lengths].role is TensorRole.CONST:
            stored = self.tensors[lengths]
            stored.dtype = DType.INT32  # the file says float16, the data are int32
            stored.load = self._loader(stored)
        node.inputs = [node.inputs[0], *node.inputs[4:7]]


def _constant(storage: Storage, table: Table, tensor: Tensor) -> NDArray[Any]:
    """A constant operand in logical order."""
    code = table.i8(TensorSlot.TYPE)
    if code not in ELEMENT_TYPES or tensor.dtype is DType.INT4:
        raise ModelUnsupported(f"constant {tensor.name}: element type {code} is not supported")
    data = storage.of(tensor.index)
    kind = tensor.dtype.numpy.newbyteorder("<")
    flat = np.frombuffer(data, kind, len(data) // kind.itemsize)
    if len(tensor.native_shape) == 5 and min(tensor.native_shape) > 0:
        align = table.i32(TensorSlot.SURFACE_ALIGNMENT)
        return weights.surface_constant(flat, tensor.native_shape, tensor.shape, align, tensor.name)
    count = prod(tensor.shape)
    if count > flat.size:
        raise ModelInvalid(
            f"constant {tensor.name}: shape {list(tensor.shape)}, but {flat.size} elements stored"
        )
    return flat[:count].reshape(tensor.shape)
