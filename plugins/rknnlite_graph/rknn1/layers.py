"""Layers with weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite import config
from rknnlite.errors import ParamInvalid, shown
from rknnlite.formats.rknn1.tensors import TensorEntry

from ..graph import ConvParams, Stage
from ..reading.fused_ops import fused_op
from .description import NodeEntry
from .graph import GraphBuilder, lowers

__all__: list[str] = []

Array = NDArray[Any]
_MOST = 1 << 12
_SIGN = 128
_OUTPUTS_FIRST = (1, 1, 21)
"""The driver takes weights of deconvolutions as (O, I, kh, kw) since this ovxlib, before it as (I, O, kh, kw); so does the chip
maker's simulator. The toolkit writes (I, O) in later files too, and a text detector of ovxlib 1.1.24 finds text only so."""
_ORDERS = ("io", "oi")


def numbers(
    build: GraphBuilder, entry: NodeEntry, key: str, default: Sequence[int], least: int = 0
) -> list[int]:
    """A list of small numbers of a node; a single number stands for all of them."""
    found = entry.attrs.get(key)
    values = [found] * len(default) if isinstance(found, int) else list(default) if found is None else found
    if not isinstance(values, list) or len(values) != len(default):
        raise build.fail(entry, f"{key} is {found!r:.80}, must be {len(default)} numbers")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MOST:
            raise build.fail(entry, f"{key} is {found!r:.80}, numbers must be in {least}..{_MOST}")
    return values


@lowers("CONV2D", "GROUPED_CONV2D")
def conv2d(build: GraphBuilder, entry: NodeEntry) -> None:
    x, weight = build.input(entry), build.constant(entry, 1)
    kw, kh = numbers(build, entry, "ksize", (weight.shape[-1], weight.shape[-2]), 1)
    sx, sy = numbers(build, entry, "stride", (1, 1), 1)
    dx, dy = numbers(build, entry, "dilation", (1, 1))
    _convolved(build, entry, x, (kh, kw), (sy, sx), (dy, dx), numbers(build, entry, "pad", (0, 0, 0, 0)))


@lowers("CONV1D", "GROUPED_CONV1D")
def conv1d(build: GraphBuilder, entry: NodeEntry) -> None:
    """A convolution of one row."""
    given, weight = build.input(entry), build.constant(entry, 1)
    n, channels, columns = build.shape(given)
    size, stride, dilation = (
        numbers(build, entry, key, (default,), least)[0]
        for key, default, least in (("ksize", weight.shape[-1], 1), ("stride", 1, 1), ("dilation", 1, 0))
    )
    if str(entry.attrs.get("pad_type", "AUTO")).endswith(("VALID", "SAME")):
        raise build.unsupported(entry, f"padding of type {entry.attrs['pad_type']!r:.60} is not known")
    x = build.helper(entry, given, (n, channels, 1, columns), "row")
    build.emit("Reshape", entry, [given], [x])
    pads = [*numbers(build, entry, "pad", (0, 0)), 0, 0]
    _convolved(build, entry, x, (1, size), (1, stride), (1, dilation), pads, of_rows=True)


def _convolved(
    build: GraphBuilder,
    entry: NodeEntry,
    x: int,
    size: tuple[int, int],
    strides: tuple[int, int],
    dilations: tuple[int, int],
    pads: Sequence[int],
    of_rows: bool = False,
) -> None:
    """``pads``: left, right, top, bottom; ``of_rows``: the file's result has no axis of rows."""
    weight = build.constant(entry, 1)
    n, channels, height, width = build.shape(x)
    (kh, kw), (sy, sx), (left, right, top, bottom) = size, strides, pads
    dy, dx = max(1, dilations[0]), max(1, dilations[1])
    multiplier, group = (numbers(build, entry, key, (0,))[0] for key in ("multiplier", "group"))
    stored = build.elements(weight).reshape(*weight.shape[:2], kh, kw)
    doubts: list[str] = []
    depthwise = multiplier == 1
    if multiplier:
        stored = stored.reshape(channels * multiplier, 1, kh, kw)
        if not depthwise:
            stored = _dense(stored, channels, channels, weight)
    elif group > 1 and stored.shape[1] != channels:
        stored = _dense(stored, channels, group, weight)
        if not entry.op.startswith("VSI_NN_OP_GROUPED"):
            doubts.append(
                f"a convolution of {group} groups that is not depthwise: the chip maker's simulator gives every group the "
                "channels of the first one, here each has its own"
            )
    if stored.shape[1] != (1 if depthwise else channels):
        raise build.fail(
            entry, f"weights {list(weight.shape)} do not fit {channels} channels and a kernel of {kh} x {kw}"
        )
    rows = (height + top + bottom - dy * (kh - 1) - 1) // sy + 1
    columns = (width + left + right - dx * (kw - 1) - 1) // sx + 1
    last = build.relu_behind(entry)
    shape = (n, len(stored), rows, columns)
    y = build.output(last, (n, len(stored), columns) if of_rows else shape)
    to = build.helper(entry, y, shape, "row_out") if of_rows else y
    params = _params(build, entry, x, weight, stored, (sy, sx), (dy, dx), (top, left), depthwise=depthwise)
    _emit(build, last, "Conv" if last is entry else "ConvRelu", x, to, params, doubts)
    if of_rows:
        build.emit("Reshape", entry, [to], [y])


@lowers("FCL", "FCL2")
def fully_connected(build: GraphBuilder, entry: NodeEntry) -> None:
    """A 1 x 1 convolution of the flattened input."""
    x, weight = build.input(entry), build.constant(entry, 1)
    batch, inputs = build.shape(x)[0], int(np.prod(build.shape(x)[1:]))
    stored = build.elements(weight).reshape(-1, int(np.prod(weight.shape[1:])), 1, 1)
    if stored.shape[1] != inputs:
        raise build.fail(entry, f"weights {list(weight.shape)} for {inputs} inputs")
    flat = build.helper(entry, x, (batch, inputs, 1, 1), "flat")
    build.emit("Reshape", entry, [x], [flat])
    last = build.relu_behind(entry)
    y = build.output(last, (batch, len(stored)))
    wide = build.helper(entry, y, (batch, len(stored), 1, 1), "sums")
    params = _params(build, entry, flat, weight, stored)
    _emit(build, last, "Conv" if last is entry else "ConvRelu", flat, wide, params, [])
    build.emit("Reshape", entry, [wide], [y])


@lowers("DECONVOLUTION")
def deconvolution(build: GraphBuilder, entry: NodeEntry) -> None:
    x, weight = build.input(entry), build.constant(entry, 1)
    n, channels, height, width = build.shape(x)
    kw, kh = numbers(build, entry, "ksize", (weight.shape[-1], weight.shape[-2]), 1)
    sx, sy = numbers(build, entry, "stride", (1, 1), 1)
    left, right, top, bottom = numbers(build, entry, "pad", (0, 0, 0, 0))
    more_x, more_y = numbers(build, entry, "output_padding", (0, 0))
    group = max(1, numbers(build, entry, "group", (1,))[0])
    elements = build.elements(weight).reshape(-1)
    count, doubts = elements.size // (channels * kh * kw), list[str]()
    depthwise = group > 1 and group == channels and elements.size == channels * kh * kw
    if depthwise:
        forward = elements.reshape(channels, 1, kh, kw)
    elif group == 1 and count and elements.size == count * channels * kh * kw:
        order, doubts = _order(build, entry)
        one, other = (channels, count) if order == "io" else (count, channels)
        forward = elements.reshape(one, other, kh, kw)
        forward = forward.swapaxes(0, 1) if order == "io" else forward
    else:
        raise build.unsupported(
            entry, f"weights {list(weight.shape)}, {channels} channels in {group} groups are not known"
        )
    forward = np.ascontiguousarray(forward[..., ::-1, ::-1])
    rows = (height - 1) * sy + kh - top - bottom + more_y
    columns = (width - 1) * sx + kw - left - right + more_x
    y = build.output(entry, (n, len(forward), rows, columns))
    params = _params(
        build, entry, x, weight, forward, (sy, sx), (1, 1), (top, left), depthwise=depthwise, transposed=True
    )
    _emit(build, entry, "ConvTranspose", x, y, params, doubts)


def _order(build: GraphBuilder, entry: NodeEntry) -> tuple[str, list[str]]:
    """Whether weights are "io" or "oi", which their shape tells, or that of others in the file; doubts where it is assumed."""
    found = {_told(build, entry)}
    if None in found:
        found = {_told(build, node) for node in build.found.nodes if node.op == entry.op} - {None}
    if len(found) == 1:
        return str(found.pop()), []
    chosen = config.get("rknn1_deconvolution")
    if chosen:
        if chosen not in _ORDERS:
            raise ParamInvalid(f"rknn1_deconvolution is {shown(chosen)}, must be one of {', '.join(_ORDERS)}")
        return chosen, []
    if build.found.ovxlib < _OUTPUTS_FIRST or build.constant(entry, 1).shape[:2] == (1, 1):
        return "io", []
    return "io", [
        "the weights of a deconvolution with as many inputs as outputs: read as (I, O), as files of the toolkit have them; the "
        "chip maker's simulator reads (O, I). Where results are wrong, set rknn1_deconvolution: oi"
    ]


def _told(build: GraphBuilder, entry: NodeEntry) -> Optional[str]:
    shape, outputs = build.constant(entry, 1).shape[:2], numbers(build, entry, "weights", (0,))[0]
    if numbers(build, entry, "group", (1,))[0] > 1 or len(set(shape)) < 2 or outputs not in shape:
        return None
    return "io" if shape[1] == outputs else "oi"


def _dense(stored: Array, channels: int, group: int, weight: TensorEntry) -> Array:
    """Grouped weights with the zeros between the groups."""
    outputs, inputs = len(stored) // group, channels // group
    zero = weight.quant.zero_point if weight.quant else 0
    wide = np.full((len(stored), channels, *stored.shape[2:]), zero, stored.dtype)
    for number in range(group):
        rows = slice(number * outputs, (number + 1) * outputs)
        wide[rows, number * inputs : (number + 1) * inputs] = stored[rows]
    return wide


def _params(
    build: GraphBuilder,
    entry: NodeEntry,
    x: int,
    weight: TensorEntry,
    stored: Array,
    strides: tuple[int, int] = (1, 1),
    dilations: tuple[int, int] = (1, 1),
    pads: tuple[int, int] = (0, 0),
    depthwise: bool = False,
    transposed: bool = False,
) -> ConvParams:
    source = build.tensors[x]
    bias = _bias(build, entry, len(stored))
    quantised = source.quant is not None and weight.quant is not None
    zero: Optional[Array] = None
    if quantised:
        assert source.quant is not None and weight.quant is not None
        zero = np.full(len(stored), weight.quant.zero_point, np.float32)
        # ConvParams has the zero point of the input folded into the bias
        sums = (stored.astype(np.int64) - weight.quant.zero_point).sum(axis=(1, 2, 3))
        bias = (0 if bias is None else bias) - source.quant.zero_point * sums
        if stored.dtype == np.uint8:  # the same as signed bytes, which engines multiply fast
            stored, zero = (stored ^ np.uint8(_SIGN)).view(np.int8), zero - _SIGN
    elif weight.quant is not None:
        raise build.unsupported(entry, f"quantised weights on an input of type {source.dtype.short}")
    shape = (stored.shape[0], stored.shape[1], stored.shape[2], stored.shape[3])
    return ConvParams(
        lambda: stored,
        shape,
        quantised,
        depthwise,
        transposed,
        strides,
        dilations,
        pads,
        bias=bias,
        zero_point=zero,
    )


def _bias(build: GraphBuilder, entry: NodeEntry, count: int) -> Optional[Array]:
    if not build.has(entry, 2):
        return None
    found = build.constant(entry, 2)
    stored = build.elements(found).reshape(-1)
    if len(stored) != count:
        raise build.fail(entry, f"{len(stored)} biases for {count} outputs")
    return (
        stored.astype(np.int64)
        if found.quant is not None or stored.dtype.kind in "iu"
        else stored.astype(np.float32)
    )


def _emit(
    build: GraphBuilder, entry: NodeEntry, op: str, x: int, y: int, params: ConvParams, doubts: list[str]
) -> None:
    """``real(out) = acc * scale(x) * scale(w)``; the product over scale(y) in double, as the runtime has it."""
    stage = Stage(precise=True)
    if params.quantised:
        source, target = build.tensors[x].quant, build.tensors[y].quant
        weight = build.constant(build.fused.get(entry.index, entry), 1).quant
        assert source is not None and weight is not None
        unit = source.scale * weight.scale / (target.scale if target is not None else 1.0)
        params.multiplier = np.full(params.weight_shape[0], unit, np.float64)
    node = build.emit(op, entry, [x], [y])
    node.conv, node.stage, node.fused, node.doubts = params, stage, fused_op(op), doubts
