"""Softmax and normalisations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rknnlite_graph.graph import Activation
from rknnlite_graph.node_view import NodeView

from ..registry import centred_kernel, check_operands, op, real_kernel, real_op
from ..values import Array, Kernel, decode, encode

if TYPE_CHECKING:
    from rknnlite_graph.norms import NormSpec

__all__ = ["scale_and_offset", "softmax", "softmax_of_bytes"]


def softmax(x: Array, axis: int) -> Array:
    """Stable softmax along an axis, float32."""
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def softmax_of_bytes(x: Array, axis: int, table: Array) -> Array:
    """The same of integers in float32: exponentials of all distances from the largest, exact sums of them."""
    e = table.take((x.max(axis=axis, keepdims=True) - x).astype(np.intp))
    return e / e.sum(axis=axis, keepdims=True, dtype=np.float64).astype(np.float32)


@op("exSoftmax13", "Softmax")
def softmax_op(view: NodeView) -> Kernel:
    check_operands(view, 1)
    axis, params = int(view.parameters["axis"]), view.tensor(0).quant
    if not view.tensor(0).in_eight_bits or params is None:
        return real_kernel(view, lambda _, x: softmax(x, axis))
    from rknnlite_graph.byte_tables import exponentials

    table = exponentials(params.scale)
    return centred_kernel(view, lambda _, x: softmax_of_bytes(x, axis, table))


@real_op("LogSoftmax")
def log_softmax(view: NodeView, x: Array) -> Array:
    axis = int(view.parameters["axis"])
    shifted = x - x.max(axis=axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


@op("exNorm", "LayerNormalization")
def norm(view: NodeView) -> Kernel:
    """Modes layer, rms, l1, l2, pixel over ``axes``; pixel, which exporters of embeddings bring about, is l2."""
    check_operands(view, 1)
    from rknnlite_graph.norms import norm_spec

    spec = norm_spec(view)
    if spec.whole:
        return centred_kernel(view, lambda view, *operands: _norm_of_bytes(spec, *operands))
    return real_kernel(view, lambda view, *operands: _norm(view, spec, *operands))


def _norm_of_bytes(spec: NormSpec, x: Array, gamma: Array | None = None, beta: Array | None = None) -> Array:
    """Integers in float32: their sums are exact, the size of each row is found in double."""
    axes, n = spec.axes, np.float64(spec.count)
    if spec.mode == "l1":
        size = np.abs(x).sum(axis=axes, keepdims=True, dtype=np.float64) + spec.added
    else:
        size = np.square(x).sum(axis=axes, keepdims=True, dtype=np.float64)
        if spec.mode == "layer":
            total = x.sum(axis=axes, keepdims=True, dtype=np.float64)
            x = x * np.float32(n) - total.astype(np.float32)
            size = size * n - total * total
        size = np.sqrt(size + spec.added)
        if spec.mode == "rms":
            size = size / np.sqrt(n)
    with np.errstate(all="ignore"):
        out = x / size.astype(np.float32)
    if gamma is not None:
        out = out * _along(gamma, x, axes)
    return out if beta is None else out + _along(beta, x, axes)


def _norm(
    view: NodeView, spec: NormSpec, x: Array, gamma: Array | None = None, beta: Array | None = None
) -> Array:
    mode, eps, axes = spec.mode, np.float32(spec.eps), spec.axes
    if mode == "layer":
        centred = x - x.mean(axis=axes, keepdims=True, dtype=np.float64).astype(x.dtype)
        out = centred / np.sqrt(np.square(centred).mean(axis=axes, keepdims=True) + eps)
    elif mode == "rms":
        out = x / np.sqrt(np.square(x).mean(axis=axes, keepdims=True) + eps)
    elif mode in ("l2", "pixel"):
        out = x / np.sqrt(np.square(x).sum(axis=axes, keepdims=True) + eps)
    elif mode == "l1":
        out = x / (np.abs(x).sum(axis=axes, keepdims=True) + eps)
    else:
        raise view.fail(f"normalisation mode {mode!r} is not supported")
    if gamma is not None:
        out = out * _along(gamma, x, axes)
    return out if beta is None else out + _along(beta, x, axes)


def _along(operand: Array, x: Array, axes: tuple[int, ...]) -> Array:
    """Gamma or beta, given flat, laid along the normalised axes."""
    shape = tuple(n if i in axes else 1 for i, n in enumerate(x.shape))
    return operand.reshape(shape) if operand.size == np.prod(shape) else operand


def scale_and_offset(view: NodeView) -> tuple[Array, Array]:
    """Of a BatchNormalization, [C] each. int8: y = (q * gamma_q + beta_q) * scale_x * scale_gamma with the zero point in beta."""
    source, gamma = view.tensor(0), view.tensor(1)
    if source.quant is None or gamma.quant is None:
        return view.constant(1).reshape(-1), view.constant(2).reshape(-1)
    unit = source.quant.scale * gamma.quant.scale
    stored = view.tensor(2).value().astype(np.float64).reshape(-1) * unit
    raw_gamma = gamma.value().astype(np.float64).reshape(-1) * unit
    beta = (stored + source.quant.zero_point * raw_gamma).astype(np.float32)
    return (raw_gamma / source.quant.scale).astype(np.float32), beta


@op("BatchNormalization", "BatchNormalizationRelu")
def batch_norm(view: NodeView) -> Kernel:
    """A factor and an offset per channel."""
    source, target = view.tensor(0), view.outputs[0]
    shape = (1, -1, *([1] * (len(source.shape) - 2)))
    fused = view.node.fused
    relu = fused is not None and fused.after is Activation.RELU
    gamma, beta = (each.reshape(shape) for each in scale_and_offset(view))

    def run(values: list[Array]) -> list[Array]:
        real = decode(values[0], source) * gamma + beta
        return [encode(np.maximum(real, 0) if relu else real, target)]

    return run


@real_op("LRN")
def lrn(view: NodeView, x: Array) -> Array:
    size = int(view.parameters["size"])
    alpha, beta = float(view.parameters["alpha"]), float(view.parameters["beta"])
    bias = float(view.parameters["bias"])
    before = (size - 1) // 2
    squares = np.pad(np.square(x), [(0, 0), (before, size - 1 - before), *([(0, 0)] * (x.ndim - 2))])
    total = sum(squares[:, i : i + x.shape[1]] for i in range(size))
    return x / np.power(bias + alpha / size * np.asarray(total), beta).astype(np.float32)


@real_op("MeanVarianceNormalization")
def mean_variance(view: NodeView, x: Array) -> Array:
    axes = tuple(view.parameters["axes"])
    centred = x - x.mean(axis=axes, keepdims=True)
    return centred / (np.sqrt(np.square(centred).mean(axis=axes, keepdims=True)) + np.float32(1e-9))


@real_op("GroupNormalization")
def group_norm(view: NodeView, x: Array, gamma: Array, beta: Array) -> Array:
    groups = int(view.parameters["num_groups"])
    cells = x.reshape(x.shape[0], groups, -1)
    centred = cells - cells.mean(axis=2, keepdims=True)
    eps = np.float32(view.parameters["epsilon"])
    normal = (centred / np.sqrt(np.square(centred).mean(axis=2, keepdims=True) + eps)).reshape(x.shape)
    wide = (1, -1, *([1] * (x.ndim - 2)))
    per_channel = [np.repeat(p.reshape(-1), x.shape[1] // p.size).reshape(wide) for p in (gamma, beta)]
    return normal * per_channel[0] + per_channel[1]
