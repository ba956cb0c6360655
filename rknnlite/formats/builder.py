"""Builds a ``Graph`` from the tables of a flatbuffer container: tensors, nodes, decoded convolutions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelInvalid, ModelUnsupported
from ..graph import ConvParams, Graph, Node, Tensor, TensorRole
from ..tensor import DType
from . import weights
from .attributes import read_attributes
from .flatbuffer import Table
from .recurrent import RECURRENT_OPS, read_recurrent
from .registers import Program
from .rknn6 import ELEMENT_TYPES, quant_of, shape_of
from .stages import Family, data_use, deconv_geometry, family_of, read_stage

__all__ = ["build_graph"]

_ROLES = {
    1: TensorRole.INPUT, 2: TensorRole.OUTPUT, 3: TensorRole.ACTIVATION, 4: TensorRole.CONST,
    5: TensorRole.CONST, 8: TensorRole.HELPER,
}  # fmt: skip
_REGISTER_COMMANDS, _TASKS = 9, 10
_BYTES_PER_TABLE = 24  # no tensor or node takes less of a genuine file
_COMPRESSED, _SPARSE = 1, 4
_FEATURE_LAYOUT = 64
_BIAS_GROUPS = {"RKNPU v2": 8, "RKNPU f2": 8, "RKNPU f3": 8, "RKNPU lite": 4, "RKNPU t4": 4}


def build_graph(flat: Table, index: int, family: str, file_size: int) -> Graph:
    """Read graph ``index``; everything the file claims is checked. Raises ModelInvalid, ModelUnsupported."""
    graphs = list(flat.tables(2))
    if not 0 <= index < len(graphs):
        raise ModelInvalid(f"the model has {len(graphs)} graphs, not one numbered {index}")
    return _Builder(flat, graphs[index], graphs[0], family, file_size).build()


class _Builder:
    """Holds what the parts of one graph need while they are read."""

    def __init__(self, flat: Table, graph: Table, first: Table, family: str, file_size: int) -> None:
        self.family, self.word = family_of(family), family
        self.limit = max(64, file_size // _BYTES_PER_TABLE)
        self.graph = graph
        self.blobs = list(flat.tables(20))
        if graph.count(0) > self.limit or graph.count(1) > self.limit:
            raise ModelInvalid(f"damaged file: {graph.count(0)} tensors and {graph.count(1)} nodes in so small a file")
        self.tables = list(graph.tables(0))
        self.shared = {} if graph is first else self._blobs_by_name(first)
        self.names: dict[str, int] = {}
        self.tensors = [self._tensor(i, table) for i, table in enumerate(self.tables)]
        self.program = self._program()

    def _blobs_by_name(self, first: Table) -> dict[str, memoryview]:
        found = {}
        for table in first.tables(0):
            number = table.i32(18, -1)
            if table.i8(2) in (4, 5, 8) and 0 <= number < len(self.blobs):
                found[table.string(5)] = self.blobs[number].data(0)
        return found

    # -- tensors ------------------------------------------------------------------------------------------

    def _blob(self, table: Table, name: str) -> memoryview:
        number = table.i32(18, -1)
        if not 0 <= number < len(self.blobs):
            raise ModelInvalid(f"constant {name}: blob {number} does not exist (there are {len(self.blobs)})")
        data = self.blobs[number].data(0)
        return data if len(data) else self.shared.get(name, data)

    def _tensor(self, index: int, table: Table) -> Tensor:
        kind, name = table.i8(2), table.string(5)
        code = table.i8(0)
        dtype = ELEMENT_TYPES.get(code, DType.UINT8)
        role = _ROLES.get(kind, TensorRole.HELPER)
        if role in (TensorRole.INPUT, TensorRole.OUTPUT, TensorRole.ACTIVATION) and code not in ELEMENT_TYPES:
            raise ModelUnsupported(f"tensor {name}: element type {code} is not supported")
        shape = shape_of(table, 4, name)
        native = tuple(table.i32s(3)[:256].tolist())
        tensor = Tensor(
            index=index, name=name, dtype=dtype, shape=shape, role=role,
            quant=quant_of(table.f32s(10), table.i32s(11), dtype, name),
            native_shape=native, nbytes=table.i32(12),
        )  # fmt: skip
        if name.startswith("empty_placeholder"):
            tensor.role = TensorRole.HELPER
        elif role is TensorRole.CONST:
            tensor.load = partial(self._constant, table, tensor)
        if kind in (4, 5, 8):
            self.names.setdefault(name, index)
        return tensor

    def _constant(self, table: Table, tensor: Tensor) -> NDArray[Any]:
        """A constant operand in logical order."""
        if table.i8(0) not in ELEMENT_TYPES or tensor.dtype is DType.INT4:
            raise ModelUnsupported(f"constant {tensor.name}: element type {table.i8(0)} is not supported")
        data = self._blob(table, tensor.name)
        kind = tensor.dtype.numpy.newbyteorder("<")
        flat = np.frombuffer(data, kind, len(data) // kind.itemsize)
        if len(tensor.native_shape) == 5 and min(tensor.native_shape) > 0:
            return weights.surface_constant(flat, tensor.native_shape, tensor.shape, table.i32(19), tensor.name)
        count = prod(tensor.shape)
        if count > flat.size:
            raise ModelInvalid(f"constant {tensor.name}: shape {list(tensor.shape)}, but {flat.size} elements stored")
        return flat[:count].reshape(tensor.shape)

    def _const_bytes(self, name: str) -> memoryview | None:
        index = self.names.get(name)
        return None if index is None else self._blob(self.tables[index], name)

    def _program(self) -> Program:
        tasks = commands = memoryview(b"")
        for table in self.tables:
            if table.i8(2) == _REGISTER_COMMANDS:
                commands = self._blob(table, "regcmd")
            elif table.i8(2) == _TASKS:
                tasks = self._blob(table, "task")
        return Program(tasks, commands)

    # -- nodes --------------------------------------------------------------------------------------------

    def build(self) -> Graph:
        """All nodes in order, then the checks that need the whole graph."""
        inputs, outputs = self._indices(self.graph, 2), self._indices(self.graph, 3)
        known = set(inputs)
        nodes = []
        for index, table in enumerate(self.graph.tables(1)):
            if table.empty or not table.string(1):
                continue
            node = self._node(index, table, known)
            known.update(node.outputs)
            nodes.append(node)
        for tensor in outputs:
            if tensor not in known:
                raise ModelInvalid(
                    f"output {self.tensors[tensor].name} is produced by no node: the converter dropped an operator; "
                    "convert the network again and read the converter's warnings"
                )
        return Graph(self.tensors, nodes, inputs, outputs)

    def _indices(self, table: Table, slot: int) -> list[int]:
        numbers: list[int] = table.i32s(slot).tolist()
        if len(numbers) > self.limit or any(not 0 <= i < len(self.tensors) for i in numbers):
            raise ModelInvalid(f"damaged file: tensor numbers {numbers[:8]} (there are {len(self.tensors)} tensors)")
        return numbers

    def _node(self, index: int, table: Table, known: set[int]) -> Node:
        op, name = table.string(1), table.string(2)
        listed = self._indices(table, 4)
        inputs = [i if i in known or self._stored(i, op, place) else -1 for place, i in enumerate(listed)]
        while inputs and inputs[-1] < 0:
            inputs.pop()  # scratch tensors that the compiler appends
        outputs = self._indices(table, 5)
        if op != "InputOperator" and any(i in known for i in outputs):
            raise ModelInvalid(f'node {op} "{name}" writes a tensor that exists already: the graph has a cycle')
        node = Node(
            index=index, op=op, name=name or (self.tensors[outputs[0]].name if outputs else ""),
            inputs=inputs, outputs=outputs, on_npu=table.i8(3) == 2,
            attrs=read_attributes(table, table.i8(7), table.table(8)),
        )  # fmt: skip
        if op in ("InputOperator", "OutputOperator"):
            return node
        if not outputs:
            raise ModelInvalid(f"node {node.label()} has no outputs")
        if node.on_npu:
            self._decode(node)
        return node

    def _stored(self, index: int, op: str, place: int) -> bool:
        """Whether an operand is a constant; dynamic models keep pooling weights among the helper tensors."""
        tensor = self.tensors[index]
        if tensor.role is TensorRole.HELPER and op.startswith("Conv") and place in (1, 2):
            number = self.tables[index].i32(18, -1)
            if tensor.shape and 0 < number < len(self.blobs) and len(self.blobs[number].data(0)):
                tensor.role = TensorRole.CONST
        return tensor.role is TensorRole.CONST

    def _decode(self, node: Node) -> None:
        output = self.tensors[node.outputs[0]].name
        floating = bool(node.inputs) and node.inputs[0] >= 0 and self.tensors[node.inputs[0]].dtype.is_float
        node.stage = read_stage(
            self.family, self.program, node.index, node.op, output, self._const_bytes, floating
        )
        if node.op.startswith("Conv"):
            self._convolution(node, output, floating)
        elif node.op in RECURRENT_OPS:
            self._recurrent(node)

    def _recurrent(self, node: Node) -> None:
        if len(node.inputs) < 4 or min(node.inputs[:4]) < 0:
            raise ModelInvalid(f"node {node.label()}: x, W, R or B is missing")
        tensors = [self.tensors[i] for i in node.inputs[:4]]
        blobs = [self._blob(self.tables[t.index], t.name) for t in tensors[1:]]
        node.recurrent = read_recurrent(
            node, tensors, blobs, self.tensors[node.outputs[0]].shape, self.family, self.program,
            _BIAS_GROUPS[self.word],
        )  # fmt: skip
        lengths = node.inputs[4] if len(node.inputs) > 4 else -1
        if lengths >= 0 and self.tensors[lengths].role is TensorRole.CONST:
            self.tensors[lengths].dtype = DType.INT32  # the file says float16, the data are int32
        node.inputs = [node.inputs[0], *node.inputs[4:7]]

    def _convolution(self, node: Node, output: str, floating: bool) -> None:
        operands = [i for i in node.inputs if i >= 0]
        if len(operands) < 2:
            raise ModelInvalid(f"node {node.label()} has {len(operands)} operands, a convolution needs two")
        x, w = (self.tensors[i] for i in operands[:2])
        y = self.tensors[node.outputs[0]]
        if len(x.shape) != 4 or len(y.shape) != 4 or len(w.shape) != 4 or w.role is not TensorRole.CONST:
            raise ModelInvalid(
                f"node {node.label()}: input {list(x.shape)}, weight {list(w.shape)}, output {list(y.shape)} "
                "are no convolution"
            )
        rest = operands[2:]
        extra = [rest.pop()] if node.op.endswith(("Add", "AddRelu", "Mul")) and rest else []
        slope = rest.pop() if "PRelu" in node.op and rest else None
        bias = self.tables[rest[0]] if rest else None
        conv = self._conv_params(node, x, w, y, bias, output, floating)
        if slope is not None:
            conv.slope = self._slope(self.tensors[slope], floating)
        node.inputs = [x.index, *extra]
        if x.role is TensorRole.INPUT and y.name == f"New_input_{x.name}" and _copies(conv, x, y):
            node.op = "Identity"  # the NPU's way of fetching an input; the network itself has no such layer
            return
        node.conv = conv

    def _conv_params(
        self, node: Node, x: Tensor, w: Tensor, y: Tensor, bias: Table | None, output: str, floating: bool
    ) -> ConvParams:
        transposed = node.op.startswith("ConvTranspose")
        regs = self.program.first(node.index)
        depthwise, shape = _weight_shape(w.shape, x.shape[1], y.shape[1], transposed, node)
        kernel = (shape[2], shape[3])
        use = data_use(self.family, regs, self._const_bytes, output)
        if transposed:
            strides, pads = deconv_geometry(self.family, regs, kernel)
            dilations = (1, 1)
        else:
            strides = _pair(node, "strides", (1, 1), 1)
            dilations = _pair(node, "dilations", (1, 1), 1)
            pads = _pair(node, "pads", (0, 0), 0, count=4)
        load, paired = self._weight_loader(w, x, shape, depthwise, use.zero_point)
        conv = ConvParams(
            weight=load, weight_shape=shape, quantised=not floating, depthwise=depthwise, transposed=transposed,
            strides=strides, dilations=dilations, pads=pads,
        )  # fmt: skip
        self._channel_operands(conv, bias, shape[0], use, floating, paired, node)
        return conv

    def _weight_loader(
        self, w: Tensor, x: Tensor, shape: tuple[int, int, int, int], depthwise: bool, per_channel: bool
    ) -> tuple[Callable[[], NDArray[Any]], NDArray[np.float32] | None]:
        """How to decode the weight, and its zero points when they lie beside the weights."""
        table = self.tables[w.index]
        storage = table.i8(14)
        if storage == _SPARSE:
            raise ModelUnsupported(f"weight {w.name}: sparse (2:4) weights are not supported; convert without sparse_infer")
        if storage == _COMPRESSED or table.i8(0) == 0:
            raise ModelUnsupported(f"weight {w.name}: compressed weights are not supported; convert without compress_weight")
        if w.dtype not in (DType.INT8, DType.FLOAT16) or x.dtype not in (DType.INT8, DType.FLOAT16):
            raise ModelUnsupported(
                f"weight {w.name}: {w.dtype.short} weights on {x.dtype.short} data are not supported"
            )
        data = self._blob(table, w.name)
        if not len(data):
            raise ModelUnsupported(
                f"weight {w.name} is empty: the weights were removed (remove_weight=True); this model only runs "
                "beside the master model that holds them"
            )
        flat = np.frombuffer(data, w.dtype.numpy, len(data) // w.dtype.numpy.itemsize)
        native = w.native_shape
        stored = sum(prod(part) for part in weights.segments(native, w.name))
        newer = self.family is not Family.V1
        if depthwise and newer and w.dtype is DType.INT8 and flat.size >= 2 * stored:
            decoded, zeros = weights.unpack_pairs(flat, native, shape, w.name)
            return (lambda: decoded), zeros
        if self.family is Family.V2B and w.dtype is DType.INT8 and native[5] == 4 and flat.size > stored:
            return partial(weights.unpack_first_layer, flat, native, shape, w.name), None
        if depthwise:
            return partial(_depthwise, flat, native, shape, w.name), None
        return partial(weights.unpack_blocks, flat, native, shape, w.name), None

    def _channel_operands(
        self, conv: ConvParams, bias: Table | None, channels: int, use: Any, floating: bool,
        paired: NDArray[np.float32] | None, node: Node,
    ) -> None:  # fmt: skip
        stage = node.stage
        assert stage is not None
        data = memoryview(b"") if bias is None else self._blob(bias, bias.string(5))
        if floating:
            if bias is not None:
                if len(data) < 4 * channels:
                    raise ModelInvalid(f"bias of {node.label()}: {len(data)} bytes for {channels} channels")
                conv.bias = np.frombuffer(data, "<f4", channels)
            return
        has = (use.bias and bias is not None, use.zero_point and paired is None, use.multiplier)
        blob = weights.parse_bias(data, channels, _BIAS_GROUPS[self.word], has, node.name)
        conv.bias = blob.bias
        common = np.full(channels, use.common_zero_point, np.float32)
        conv.zero_point = paired if paired is not None else common if blob.zero_point is None else blob.zero_point
        multiplier = np.full(channels, use.common_multiplier) if blob.multiplier is None else blob.multiplier
        conv.multiplier = multiplier * stage.pre_scale

    def _slope(self, tensor: Tensor, floating: bool) -> NDArray[np.float32]:
        values = tensor.value().astype(np.float32).reshape(-1)
        if floating:
            return values
        return values * np.float32(tensor.quant.scale if tensor.quant else 1 / 16384)


def _copies(conv: ConvParams, x: Tensor, y: Tensor) -> bool:
    """Whether a convolution hands its input on unchanged: a 1x1 identity between equal tensors."""
    if conv.weight_shape[2:] != (1, 1) or x.shape != y.shape or x.quant != y.quant or conv.strides != (1, 1):
        return False
    weight = conv.weight().astype(np.float64)[:, :, 0, 0]
    if conv.zero_point is not None:
        weight = weight - conv.zero_point[:, None]
    rows = weight.shape[0]
    expected = np.ones((rows, 1)) if conv.depthwise else np.eye(*weight.shape)
    return bool(np.array_equal(weight / max(float(weight.max()), 1e-9), expected))


def _depthwise(
    flat: NDArray[Any], native: tuple[int, ...], shape: tuple[int, int, int, int], name: str
) -> NDArray[Any]:
    stored = weights.unpack_blocks(flat, native, (1, shape[0], *shape[2:]), name)
    return stored.transpose(1, 0, 2, 3)


def _weight_shape(
    stored: tuple[int, ...], channels_in: int, channels_out: int, transposed: bool, node: Node
) -> tuple[bool, tuple[int, int, int, int]]:
    """(depthwise?, [OC, IC, kh, kw]) from the logical dims and the channels of input and output."""
    a, b, kh, kw = stored
    if transposed:
        depthwise = b == 1 and a == channels_in == channels_out and a > 1
        a, b = (1, a) if depthwise else (b, a)
    else:
        depthwise = a == 1 and b == channels_in == channels_out and b > 1
    if depthwise:
        return True, (channels_out, 1, kh, kw)
    if (a, b) != (channels_out, channels_in):
        raise ModelInvalid(
            f"node {node.label()}: weight {list(stored)} does not fit {channels_in} input and {channels_out} "
            "output channels"
        )
    return False, (a, b, kh, kw)


def _pair(node: Node, key: str, default: tuple[int, int], least: int, count: int = 2) -> tuple[int, int]:
    value = node.attrs.get(key) or default
    numbers = list(value) if isinstance(value, (list, tuple)) else []
    if len(numbers) not in (2, count) or not all(isinstance(n, int) and least <= n <= 4096 for n in numbers[:2]):
        raise ModelInvalid(f"node {node.label()}: {key} {value!r} are out of range")
    return numbers[0], numbers[1]
