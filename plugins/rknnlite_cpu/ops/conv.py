"""Convolutions with all that may be fused to them: the NPU's multiply-accumulate, output stage and tables."""

from __future__ import annotations

from math import prod
from typing import Optional

import numpy as np
from rknnlite_graph.graph import ConvParams, FusedOp, Stage, Tensor
from rknnlite_graph.node_view import NodeView
from rknnlite_graph.operators import convolution_types

from ..kernels.conv import ConvSpec
from ..kernels.conv_algorithm import Accumulate, accumulator
from ..registry import op
from ..values import Array, Kernel, centred_range, decode
from .requantise import bias_column, finisher, output_stage

__all__: list[str] = []


def _spec(view: NodeView, conv: ConvParams) -> ConvSpec:
    x, y = view.tensor(0), view.outputs[0]
    if x.shape[0] != y.shape[0]:
        raise view.fail(f"batch {x.shape[0]} in, {y.shape[0]} out")
    spec = ConvSpec(
        kernel=conv.weight_shape[2:],
        strides=conv.strides,
        dilations=conv.dilations,
        pads=conv.pads,
        in_size=(x.shape[2], x.shape[3]),
        out_size=(y.shape[2], y.shape[3]),
    )
    if not conv.transposed and any(abs(p) > 4096 for p in spec.padding):
        raise view.fail(f"geometry {spec} does not fit its tensors")
    return spec


@op(*convolution_types())
def build(view: NodeView) -> Kernel:
    """Prepare weights and choose kernels; the returned kernel maps values to values."""
    fused, conv, params = view.node.fused, view.node.conv, view.node.stage
    if fused is None or conv is None or params is None:
        raise view.fail("it has no decoded parameters")
    y = view.outputs[0]
    if conv.computed:
        return _with_computed_weights(view, fused, conv, params)
    extra = view.tensor(1) if view.has(1) else None
    if conv.quantised and y.quant is None and not y.dtype.is_float:
        raise view.fail(f"quantised convolution with a {y.dtype.short} output")
    accumulate, bias = _accumulator(view, conv)
    x = view.tensor(0)
    if x.quant is not None and not conv.quantised:  # a layer on the CPU of an integer model
        on_reals = accumulate
        accumulate = lambda values: on_reals(decode(values, x))  # noqa: E731
    shape = y.shape
    finish = finisher(output_stage(view, fused, conv, params), bias, (shape[0], shape[1], prod(shape[2:])))
    if extra is None:
        return lambda values: [finish(accumulate(values[0]), None).reshape(shape)]
    if view.is_const(1):
        other = np.ascontiguousarray(_like_accumulator(view.constant(1), y))
        return lambda values: [finish(accumulate(values[0]), other).reshape(shape)]
    second = min(1, len(view.live) - 1)  # the same tensor twice comes once
    return lambda values: [finish(accumulate(values[0]), _like_accumulator(values[second], y)).reshape(shape)]


def _with_computed_weights(view: NodeView, fused: FusedOp, conv: ConvParams, params: Stage) -> Kernel:
    """The weights are the second operand; how to add exactly is chosen anew for each of them."""
    (x, w), y, (channels, inputs, kh, kw) = (
        (view.tensor(i) for i in range(2)),
        view.outputs[0],
        conv.weight_shape,
    )
    swapped = conv.transposed and not conv.depthwise
    if (w.shape != ((inputs, channels) if swapped else (channels, inputs)) + (kh, kw)) or y.shape[
        1
    ] != channels:
        raise view.fail(f"weights {w.name} {list(w.shape)} for {channels} results of {inputs} channels each")
    if conv.quantised and None in (x.quant, w.quant, y.quant):
        raise view.fail("quantised weights on values that are not quantised")
    if x.shape[1] != (channels if conv.depthwise else inputs):
        raise view.fail(f"{x.shape[1]} channels in {x.name}, the weights are for {inputs}")
    bounds = tuple(float(v) for v in centred_range(x)) if conv.quantised else (0.0, 0.0)
    bias = np.zeros(channels, np.float64) if conv.bias is None else conv.bias.astype(np.float64)
    shape, spec = y.shape, _spec(view, conv)
    finish = finisher(
        output_stage(view, fused, conv, params), _column(bias, params), (*shape[:2], prod(shape[2:]))
    )

    def kernel(values: list[Array]) -> list[Array]:
        weight = values[-1]  # the same tensor twice comes once
        weight = weight.transpose(1, 0, 2, 3) if swapped else weight
        weight = np.ascontiguousarray(weight[:, :, ::-1, ::-1] if conv.transposed else weight)
        run = accumulator(weight, spec, conv.depthwise, conv.transposed, bounds, shape[0])
        return [finish(run(values[0]), None).reshape(shape)]

    return kernel


def _like_accumulator(operand: Array, y: Tensor) -> Array:
    """An operand that broadcasts against [N, OC, OH * OW]; channel factors stay small."""
    if operand.shape == y.shape or operand.shape[1:] == (y.shape[1], 1, 1):
        return operand.reshape(operand.shape[0], y.shape[1], -1)
    return np.broadcast_to(operand, y.shape).reshape(y.shape[0], y.shape[1], -1)


def _accumulator(view: NodeView, conv: ConvParams) -> tuple[Accumulate, Optional[Array]]:
    """The convolution, and what is to be added per channel."""
    x = view.tensor(0)
    weight = conv.weight().astype(np.float32)
    bias = np.zeros(conv.weight_shape[0], np.float64) if conv.bias is None else conv.bias.astype(np.float64)
    low = high = 0.0
    if conv.quantised:
        if conv.zero_point is None or x.quant is None:
            raise view.fail(f"quantised weights on an input that is not quantised ({x.name})")
        weight -= conv.zero_point.reshape(-1, 1, 1, 1)
        bias = bias + x.quant.zero_point * weight.sum(axis=(1, 2, 3), dtype=np.float64)  # inputs are centred
        low, high = (float(v) for v in centred_range(x))
    spec, batch = _spec(view, conv), x.shape[0]
    in_double = view.floats_behind_bytes and not conv.quantised
    run = accumulator(weight, spec, conv.depthwise, conv.transposed, (low, high), batch, in_double)
    return run, _column(bias, view.node.stage)


def _column(bias: Array, stage: Optional[Stage]) -> Optional[Array]:
    """A bias [OC] to add to [N, OC, OH * OW]; a chip's sums have 32 bits, which float32 has not."""
    if stage is not None and stage.in_registers:
        return bias.reshape(1, -1, 1) if bias.any() else None
    return bias_column(bias)
