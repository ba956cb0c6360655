"""Convolution nodes of the NPU: their weights in every storage form, bias, multipliers, slopes, geometry.

How a weight is stored follows the element type of the node's own first input, never the model's, because
hybrid models mix types: int8 and int16 (integers with zero points and multipliers), float16 and bfloat16
(plain), and float16 data on 4-bit or 8-bit weights that carry a scale per output channel.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelInvalid, ModelUnsupported
from rknnlite.formats.flatbuffer import Table
from rknnlite.formats.slots import TensorSlot
from rknnlite.tensor import DType

from ..graph import Accumulator, Activation, ConvParams, FusedOp, Node, Stage, Tensor, TensorRole
from . import weights
from .graph_checks import check_convolution, unread_bias
from .npu_families import NpuFamily
from .output_stages import DataUse, data_use
from .register_map import Registers
from .tensor_storage import Storage
from .weight_forms import INTEGERS, Form, Loader, Shape, StoredWeight, WeightReader, from_bfloat

__all__ = ["ConvReader"]

_SLOPE_TYPES = {
    (DType.INT8, DType.INT16),
    (DType.INT8, DType.FLOAT32),
    (DType.INT16, DType.INT16),
    (DType.INT16, DType.FLOAT16),
    (DType.INT16, DType.FLOAT32),
    (DType.FLOAT16, DType.FLOAT16),
    (DType.BFLOAT16, DType.BFLOAT16),
    (DType.FLOAT16, DType.FLOAT32),
    (DType.BFLOAT16, DType.FLOAT32),
}
"""(type of the data, type of the slopes) of verified layers."""

_ROUNDED_SLOPE = 8  # stored slopes are 16384 times as large as real ones, unless the converter rounded those


class ConvReader:
    """Decodes the convolutions of one graph. Raises ModelInvalid, ModelUnsupported."""

    def __init__(
        self, family: NpuFamily, tensors: list[Tensor], tables: list[Table], storage: Storage
    ) -> None:
        self._family = family
        self._tensors = tensors
        self._tables = tables
        self._storage = storage
        self._weights = WeightReader(family, tables, storage)
        self._means: dict[str, float] = {}

    def read(self, node: Node, fused: FusedOp, regs: Registers) -> None:
        """Decode a node of the NPU: fills ``node.conv``, leaves only run-time operands in ``node.inputs``."""
        x, w, y, rest = self._operands(node)
        if w.role is not TensorRole.CONST:
            self._read_computed(node, fused, x, w, y, rest, regs)
            return
        extra = [rest.pop()] if fused.join and rest else []
        slope = self._tensors[rest.pop()] if fused.applies(Activation.PRELU) and rest else None
        transposed = fused.accumulator is Accumulator.CONV_TRANSPOSE
        conv = self._params(node, x, w, y, rest[0] if rest else None, transposed, regs)
        fetches = x.role is TensorRole.INPUT and y.name == f"New_input_{x.name}" and _copies(conv, x, y)
        if regs or not fetches:  # on some SoCs the commands of the next node fetch the input
            check_convolution(node, conv, y, self._family, regs)
        if node.overflow and transposed:  # pads of so large a kernel do not fit their registers either
            conv.strides, conv.dilations, conv.pads = _geometry(node)
        if slope is not None:
            conv.slope = self._slope(slope, x, node)
        if x.dtype is DType.INT16 and self._family.unshifted_sums and conv.multiplier is not None:
            from .estimated_parameters import doubtful_sums  # few files are int16

            doubtful_sums(node, conv, x, y, w, self._means)
        node.doubts += _doubts(conv, node, x, y, slope, [self._tensors[i] for i in rest[1:]])
        node.inputs = [x.index, *extra]
        if fetches:
            node.op = "Identity"  # the NPU's way of fetching an input; the network itself has no such layer
            return
        node.conv = conv

    def _read_computed(
        self, node: Node, fused: FusedOp, x: Tensor, w: Tensor, y: Tensor, rest: list[int], regs: Registers
    ) -> None:
        """Decode a convolution whose weights are computed: a common zero point, the bias alone in the bias blob."""
        slope = self._tensors[rest.pop()] if fused.applies(Activation.PRELU) and rest else None
        if fused.join or w.dtype is not x.dtype or len(rest) > 1:
            raise ModelUnsupported(
                f"node {node.label()}: weights {w.name} ({w.dtype.short}) that are computed, beside {x.dtype.short} data "
                "and further operands, are not supported; put an operator (Identity) between the layer and what follows"
            )
        transposed = fused.accumulator is Accumulator.CONV_TRANSPOSE
        shape = (w.shape[1], w.shape[0]) if transposed else (w.shape[0], w.shape[1])
        depthwise = w.shape[1] == 1 and w.shape[0] == x.shape[1] == y.shape[1] and x.shape[1] > 1
        if not depthwise and shape != (y.shape[1], x.shape[1]):
            raise ModelInvalid(
                f"node {node.label()}: computed weights {w.name} {list(w.shape)} do not fit {x.shape[1]} input and "
                f"{y.shape[1]} output channels"
            )
        channels, inputs = (y.shape[1], 1) if depthwise else shape
        use = data_use(self._family, regs)
        conv = self._geometry_of(regs, node, (channels, inputs, w.shape[2], w.shape[3]), transposed)
        conv.weight, conv.computed = partial(_not_stored, node.label()), True
        conv.quantised, conv.depthwise = x.dtype in INTEGERS, depthwise
        bias = rest[0] if rest else None
        if conv.quantised:
            if w.quant is None or use.zero_point or use.multiplier:
                raise ModelInvalid(f"node {node.label()}: its computed weights {w.name} have no common steps")
            zeros = np.full(channels, w.quant.zero_point, np.float32)
            self._integer_operands(conv, node, bias, use._replace(bias=True), zeros)
        else:
            self._float_bias(conv, node, bias)
        node.doubts += unread_bias(conv, use.bias)
        if slope is not None:
            conv.slope = self._slope(slope, x, node)
        check_convolution(node, conv, y, self._family, regs)
        node.conv, node.inputs = conv, [x.index, w.index]

    def read_plain(self, node: Node, fused: FusedOp) -> None:
        """Decode a convolution that runs on the CPU: weights and bias in ONNX order, real values."""
        x, w, y, rest = self._operands(node)
        if w.role is not TensorRole.CONST:
            raise ModelUnsupported(f"node {node.label()}: a CPU layer with computed weights is not supported")
        if not fused.plain:
            raise ModelUnsupported(f"node {node.label()}: a CPU layer of this kind is not supported")
        transposed = fused.accumulator is Accumulator.CONV_TRANSPOSE
        group = node.attrs.get("group", 1)
        depthwise = group > 1 and group == x.shape[1] == y.shape[1]
        rows, columns = (x.shape[1], y.shape[1]) if transposed else (y.shape[1], x.shape[1])
        if tuple(w.shape[:2]) != (rows, 1 if depthwise else columns):
            raise ModelUnsupported(
                f"node {node.label()}: a CPU layer with weight {list(w.shape)} in {group} groups on {x.shape[1]} "
                f"channels that gives {y.shape[1]} is not supported"
            )
        swap = transposed and not depthwise
        strides, dilations, pads = _geometry(node)
        node.conv = ConvParams(
            weight=partial(_forward_kernel, partial(self._real, w, 1 if swap else 0), swap, transposed),
            weight_shape=(y.shape[1], 1 if depthwise else x.shape[1], w.shape[2], w.shape[3]),
            quantised=False,
            depthwise=depthwise,
            transposed=transposed,
            strides=strides,
            dilations=dilations,
            pads=pads,
        )
        if rest:
            bias = self._tensors[rest[0]]
            node.conv.bias = _checked_bias(self._real(bias, 0).reshape(-1), y.shape[1], node)
        node.stage = Stage()
        node.inputs = [x.index]

    def _real(self, tensor: Tensor, axis: int) -> NDArray[np.float32]:
        """A constant with steps per channel of ``axis``; float weights are rounded to theirs, as the vendor's
        simulator does with them in int8 models."""
        table, values = self._tables[tensor.index], tensor.value()
        steps, zeros = table.f32s(TensorSlot.SCALES), table.i32s(TensorSlot.ZERO_POINTS)
        if len(steps) not in (1, values.shape[axis]) or len(zeros) != len(steps) or tensor.dtype.bits > 32:
            return values.astype(np.float32)
        if not (np.isfinite(steps).all() and (steps > 0).all()):
            raise ModelInvalid(f"constant {tensor.name} has impossible scales")
        shape = [len(steps) if i == axis else 1 for i in range(values.ndim)]
        step, zero = steps.reshape(shape), zeros.reshape(shape).astype(np.float32)
        if not tensor.dtype.is_float:
            return ((values - zero) * step).astype(np.float32)
        if values.ndim == 1:
            return values.astype(np.float32)  # biases keep 32 bits
        return (np.clip(np.rint(values / step) + zero, -128, 127) - zero) * step

    def _operands(self, node: Node) -> tuple[Tensor, Tensor, Tensor, list[int]]:
        """(input, weight, output, further operands) with their ranks checked."""
        operands = [i for i in node.inputs if i >= 0]
        if len(operands) < 2 or node.inputs[0] < 0:
            raise ModelInvalid(f"node {node.label()} has {len(operands)} operands, a convolution needs two")
        x, w = (self._tensors[i] for i in operands[:2])
        y = self._tensors[node.outputs[0]]
        if len(x.shape) != 4 or len(y.shape) != 4 or len(w.shape) != 4:
            raise ModelInvalid(
                f"node {node.label()}: input {list(x.shape)}, weight {list(w.shape)}, output {list(y.shape)} "
                "are no convolution"
            )
        return x, w, y, operands[2:]

    def _params(
        self,
        node: Node,
        x: Tensor,
        w: Tensor,
        y: Tensor,
        bias: Optional[int],
        transposed: bool,
        regs: Registers,
    ) -> ConvParams:
        self._weights.check_form(x, w, y.shape[1])
        depthwise, shape = _weight_shape(w.shape, x.shape[1], y.shape[1], transposed, node)
        use = data_use(self._family, regs)
        weight = self._weights.read(node, x, w, shape, depthwise, use.multiplier)
        conv = self._geometry_of(regs, node, shape, transposed)
        conv.weight, conv.quantised, conv.depthwise = weight.load, x.dtype in INTEGERS, depthwise
        if conv.quantised:
            self._integer_operands(conv, node, bias, use, weight.zero_point)
            limits = self._family.places.int_limits
            clipped = node.fused is not None and node.fused.applies(Activation.CLIP) and x.dtype is DType.INT8
            if clipped and limits is not None and conv.multiplier is not None and node.stage is not None:
                node.stage.limits = limits.of(regs, float(conv.multiplier[0]))
        elif weight.form is Form.SAME:
            self._float_bias(conv, node, bias)
        else:
            self._scaled_bias(conv, node, bias, weight)
        return conv

    def _geometry_of(self, regs: Registers, node: Node, shape: Shape, transposed: bool) -> ConvParams:
        """Strides, dilations and pads, from the registers where they have them; weights are to be filled in."""
        places = self._family.places
        strides, dilations, pads = places.geometry(regs) or _geometry(node)
        if transposed:
            strides, pads = places.deconv_geometry(regs, (shape[2], shape[3]))
            dilations = places.spread(regs)
        missing = partial(_not_stored, node.label())
        return ConvParams(missing, shape, False, False, transposed, strides, dilations, pads)

    # -- bias, multipliers, slopes ------------------------------------------------------------------------

    def _integer_operands(
        self,
        conv: ConvParams,
        node: Node,
        bias: Optional[int],
        use: DataUse,
        beside: Optional[NDArray[np.float32]],
    ) -> None:
        """Bias, zero points and multipliers of int8 and int16 layers; ``beside``: zero points of the weights."""
        stage, channels = node.stage, conv.weight_shape[0]
        assert stage is not None
        data = memoryview(b"") if bias is None else self._storage.of(bias)
        # first transposed layers leave the bit out
        zeros = (use.zero_point or use.multiplier) and beside is None
        has = (use.bias and bias is not None, zeros, use.multiplier)
        if self._family.joined_bias and all(has):
            blob = weights.parse_joined_bias(data, channels, node.name)
        else:
            blob = weights.parse_bias(data, channels, self._family.bias_group, has, node.name)
        if blob.bias is not None:
            conv.bias = blob.bias.astype(np.float64) * stage.bias_scale
        common = np.full(channels, use.common_zero_point, np.float32)
        conv.zero_point = (
            beside if beside is not None else common if blob.zero_point is None else blob.zero_point
        )
        conv.stored_multiplier = blob.multiplier
        multiplier = np.full(channels, use.common_multiplier) if blob.multiplier is None else blob.multiplier
        conv.multiplier = multiplier * stage.pre_scale

    def _float_bias(self, conv: ConvParams, node: Node, bias: Optional[int]) -> None:
        if bias is not None:
            conv.bias = _checked_bias(_floats(self._storage.of(bias)), conv.weight_shape[0], node)

    def _scaled_bias(self, conv: ConvParams, node: Node, bias: Optional[int], weight: StoredWeight) -> None:
        """``y = scale[c] * (sum w * x + bias[c])``: the scale goes into weight and bias."""
        channels = conv.weight_shape[0]
        data = memoryview(b"") if bias is None else self._storage.of(bias)
        stored: NDArray[Any] = np.zeros(channels, np.float32)
        if weight.form is Form.BYTES:
            stored, scale = weights.parse_scaled_bias(data, channels, node.name)
        else:
            assert weight.scale is not None
            scale = weight.scale
            stored = stored if bias is None else _checked_bias(_floats(data), channels, node)
        conv.bias = stored * scale
        conv.weight = partial(_scaled, weight.load, scale)

    def _slope(self, tensor: Tensor, x: Tensor, node: Node) -> NDArray[np.float32]:
        """Real slopes, one per channel of the node, or one per channel and position."""
        stored = tensor.value()
        if tensor.dtype is DType.BFLOAT16:
            stored = from_bfloat(stored)
        values: NDArray[np.float32] = stored.astype(np.float32)
        whole = not tensor.dtype.is_float
        lost = not values.size or (whole and np.median(np.abs(values)) <= _ROUNDED_SLOPE)
        if x.dtype is DType.INT16 and (lost or tensor.dtype is DType.INT32):
            raise ModelUnsupported(
                f"node {node.label()}: the converter left the slopes of int16 PRelu out; convert this layer in "
                "float16 (they are rounded to whole numbers)"
            )
        # one slope for all channels stays a float32 number
        if not (x.dtype.is_float or tensor.dtype.is_float):
            values = values * np.float32(tensor.quant.scale if tensor.quant else 1 / 16384)
        return _spread_slopes(values, self._tensors[node.outputs[0]].shape, node)


# -- helpers -------------------------------------------------------------------------------------------------


def _floats(data: memoryview) -> NDArray[np.float32]:
    values: NDArray[np.float32] = np.frombuffer(data, "<f4", len(data) // 4).astype(np.float32)
    return values


def _doubts(
    conv: ConvParams, node: Node, x: Tensor, y: Tensor, slope: Optional[Tensor], unread: list[Tensor]
) -> list[str]:
    """What no verified layer has had."""
    found = [f"its operand {tensor.name} is not read" for tensor in unread]
    if slope is not None and (x.dtype, slope.dtype) not in _SLOPE_TYPES:
        found.append(f"its slopes are {slope.dtype.short} for data that are {x.dtype.short}")
    lower = node.stage.limits[0] if node.stage is not None else None
    clipped = node.fused is not None and node.fused.applies(Activation.CLIP) and x.dtype is DType.INT8
    if clipped and lower is None and y.quant is not None and y.quant.zero_point == -128:
        found.append(
            "the lower limit of its Clip is above 0, and this format does not tell where; none is applied"
        )
    if conv.transposed and conv.dilations != (1, 1) and conv.depthwise:
        found.append("a transposed depthwise convolution with dilations has not been seen")
    return found


def _spread_slopes(values: NDArray[np.float32], shape: tuple[int, ...], node: Node) -> NDArray[np.float32]:
    """Slopes for a result of ``shape``: [C], or [C, H, W] where they differ by position."""
    values = values if values.ndim == 4 else values.reshape(-1, 1, 1)
    try:
        full = np.broadcast_to(values, (1, *shape[1:]))[0]
    except ValueError:
        raise ModelInvalid(
            f"node {node.label()}: slopes of shape {list(values.shape)} for a result of shape {list(shape)}"
        ) from None
    return np.ascontiguousarray(full if max(values.shape[-2:]) > 1 else full[:, 0, 0])


def _not_stored(label: str) -> NDArray[Any]:
    raise ValueError(f"the weights of node {label} are computed when it runs")


def _scaled(load: Loader, scale: NDArray[np.float32]) -> NDArray[Any]:
    return np.multiply(load(), scale.reshape(-1, 1, 1, 1), dtype=np.float32)


def _forward_kernel(load: Loader, swap: bool, flip: bool) -> NDArray[np.float32]:
    """ONNX weights as the forward kernel: transposed ones get output channels first and are turned around."""
    values = load().transpose(1, 0, 2, 3) if swap else load()
    return np.ascontiguousarray(values[:, :, ::-1, ::-1] if flip else values)


def _checked_bias(values: NDArray[Any], channels: int, node: Node) -> NDArray[Any]:
    if len(values) < channels:
        raise ModelInvalid(f"bias of {node.label()}: {len(values)} values for {channels} channels")
    return values[:channels]


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


def _weight_shape(
    stored: tuple[int, ...], channels_in: int, channels_out: int, transposed: bool, node: Node
) -> tuple[bool, Shape]:
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


def _geometry(node: Node) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
    """(strides, dilations, (top, left)) from the attributes, checked."""
    strides, dilations = _pair(node, "strides", (1, 1), 1), _pair(node, "dilations", (1, 1), 1)
    return strides, dilations, _pair(node, "pads", (0, 0), 0, count=4)


def _pair(node: Node, key: str, default: tuple[int, int], least: int, count: int = 2) -> tuple[int, int]:
    value = node.attrs.get(key) or default
    numbers = list(value) if isinstance(value, (list, tuple)) else []
    if len(numbers) not in (2, count) or not all(
        isinstance(n, int) and least <= n <= 4096 for n in numbers[:2]
    ):
        raise ModelInvalid(f"node {node.label()}: {key} {value!r} are out of range")
    return numbers[0], numbers[1]
