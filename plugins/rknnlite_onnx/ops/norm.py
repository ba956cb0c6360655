"""Softmax and normalisations."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rknnlite_graph.byte_tables import exponentials
from rknnlite_graph.graph import Activation
from rknnlite_graph.norms import NormSpec, norm_spec

from rknnlite.errors import ModelInvalid

from ..registry import LoweredNode, lowers

__all__ = ["softmax_of_bytes"]

Array = NDArray[Any]


@lowers("exSoftmax13", "Softmax", precise=True)
def softmax(node: LoweredNode) -> None:
    if node.precise:
        if not node.small(0):
            raise node.refuse("a softmax of floats in 8 bits")
        shape = node.view.tensor(0).shape
        axis = int(node.parameters["axis"]) % len(shape)
        node.store(softmax_of_bytes(node, node.whole(0), shape, axis, exponentials(node.step(0))))
        return
    node.store_finite(node.emit("Softmax", node.real(0), axis=int(node.parameters["axis"])))


def softmax_of_bytes(node: LoweredNode, x: str, shape: Sequence[int], axis: int, table: Array) -> str:
    """Of integers in float32: exponentials of all distances from the largest, exact sums of them in double."""
    e = node.emitter
    away = node.emit("Sub", node.emit("ReduceMax", x, axes=[axis], keepdims=1), x)
    found = node.looked_up(table, e.cast(away, np.int32), shape)
    total = node.emit("ReduceSum", e.cast(found, np.float64), node.ints(axis), keepdims=1)
    return node.emit("Div", found, e.cast(total, np.float32))


@lowers("LogSoftmax")
def log_softmax(node: LoweredNode) -> None:
    node.store_finite(node.emit("LogSoftmax", node.real(0), axis=int(node.parameters["axis"])))


def _mean(node: LoweredNode, name: str, axes: Sequence[int], keepdims: int = 1) -> str:
    return node.emit("ReduceMean", name, axes=list(axes), keepdims=keepdims)


def _precise_mean(node: LoweredNode, name: str, axes: Sequence[int]) -> str:
    """Added in double, as the CPU reference does, where that is asked for."""
    if not node.exact:
        return _mean(node, name, axes)
    wide = _mean(node, node.emitter.cast(name, np.float64), axes)
    return node.emitter.cast(wide, np.float32)


def _square(node: LoweredNode, name: str) -> str:
    return node.emit("Mul", name, name)


@lowers("exNorm", "LayerNormalization", precise=True)
def norm(node: LoweredNode) -> None:
    """Modes layer, rms, l1, l2, pixel over ``axes``; see the CPU reference."""
    try:
        spec = norm_spec(node.view)
    except ModelInvalid as error:
        raise node.refuse(str(error)) from None
    shape, x, axes = node.view.tensor(0).shape, node.real(0), list(spec.axes)
    if spec.mode == "layer" and not node.exact and axes == list(range(axes[0], len(shape))):
        node.store(_layer_norm(node, x, axes))
        return
    if node.precise and not spec.whole:
        raise node.refuse("sums of floats, or of many integers, behind 8 bits")
    out = _norm_of_bytes(node, spec) if spec.whole and node.exact else _norm(node, spec, x)
    for position, kind in ((1, "Mul"), (2, "Add")):
        if node.has(position):
            out = node.emit(kind, out, _along(node, position, axes))
    node.store_finite(out)


def _norm(node: LoweredNode, spec: NormSpec, x: str) -> str:
    axes, eps = list(spec.axes), node.const(spec.eps)
    if spec.mode == "layer":
        x = node.emit("Sub", x, _precise_mean(node, x, axes))
    if spec.mode in ("layer", "rms"):
        size = node.emit("Sqrt", node.emit("Add", _mean(node, _square(node, x), axes), eps))
    elif spec.mode == "l1":
        size = node.emit("Add", node.emit("ReduceSum", node.emit("Abs", x), node.ints(*axes)), eps)
    else:
        total = node.emit("ReduceSum", _square(node, x), node.ints(*axes))
        size = node.emit("Sqrt", node.emit("Add", total, eps))
    return node.emit("Div", x, size)


def _norm_of_bytes(node: LoweredNode, spec: NormSpec) -> str:
    """Exact sums of integers, the size of each row in double; step by step as the CPU reference."""
    e, x, axes = node.emitter, node.whole(0), node.ints(*spec.axes)

    def number(value: float) -> str:
        return node.const(value, np.float64)

    if spec.mode == "l1":
        size = node.emit("ReduceSum", e.cast(node.emit("Abs", x), np.float64), axes)
        return node.emit("Div", x, e.cast(node.emit("Add", size, number(spec.added)), np.float32))
    size = node.emit("ReduceSum", e.cast(_square(node, x), np.float64), axes)
    if spec.mode == "layer":
        total = node.emit("ReduceSum", x, axes)
        x = node.emit("Sub", node.emit("Mul", x, node.const(spec.count)), total)
        squared = _square(node, e.cast(total, np.float64))
        size = node.emit("Sub", node.emit("Mul", size, number(spec.count)), squared)
    size = node.emit("Sqrt", node.emit("Add", size, number(spec.added)))
    if spec.mode == "rms":
        size = node.emit("Div", size, number(np.sqrt(np.float64(spec.count))))
    return node.emit("Div", x, e.cast(size, np.float32))


def _layer_norm(node: LoweredNode, x: str, axes: Sequence[int]) -> str:
    """As the one operator that readers of ONNX know."""
    shape = [node.view.tensor(0).shape[axis] for axis in axes]
    gamma = _flat(node, 1, shape) if node.has(1) else node.const(np.ones(shape))
    beta = [_flat(node, 2, shape)] if node.has(2) else []
    eps = float(node.attrs.get("eps", node.parameters["epsilon"]))
    return node.emit("LayerNormalization", x, gamma, *beta, axis=axes[0], epsilon=eps)


def _flat(node: LoweredNode, position: int, shape: Sequence[int]) -> str:
    if prod(node.view.tensor(position).shape) != prod(shape):
        raise node.refuse(f"gamma or beta of shape {list(node.view.tensor(position).shape)}")
    if node.view.is_const(position):
        return node.const(node.constant(position).reshape(shape))
    return node.emit("Reshape", node.real(position), node.ints(*shape))


def _along(node: LoweredNode, position: int, axes: Sequence[int]) -> str:
    """Gamma or beta, given flat, laid along the normalised axes."""
    shape = [n if i in axes else 1 for i, n in enumerate(node.view.tensor(0).shape)]
    if prod(node.view.tensor(position).shape) != prod(shape):
        return node.real(position)
    if node.view.is_const(position):
        return node.const(node.constant(position).reshape(shape))
    return node.emit("Reshape", node.real(position), node.ints(*shape))


@lowers("BatchNormalization", "BatchNormalizationRelu")
def batch_norm(node: LoweredNode) -> None:
    """Gamma and beta behind the values; int8 keeps the zero point in beta, in steps of input times gamma."""
    source, stored = node.view.tensor(0), node.view.tensor(1)
    wide = (1, -1, *([1] * (len(source.shape) - 2)))
    gamma, beta = node.view.constant(1), node.view.constant(2)
    if source.quant is not None and stored.quant is not None:
        gamma, beta = _real_parameters(node, source.quant.scale * stored.quant.scale)
    out = node.emit("Mul", node.real(0), node.const(gamma.reshape(wide)))
    out = node.emit("Add", out, node.const(beta.reshape(wide)))
    fused = node.view.node.fused
    node.store(node.emit("Relu", out) if fused is not None and fused.after is Activation.RELU else out)


def _real_parameters(node: LoweredNode, unit: float) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    params = node.view.tensor(0).quant
    assert params is not None
    gamma = node.view.tensor(1).value().astype(np.float64) * unit
    beta = node.view.tensor(2).value().astype(np.float64) * unit + params.zero_point * gamma
    return (gamma / params.scale).astype(np.float32), beta.astype(np.float32)


@lowers("LRN")
def lrn(node: LoweredNode) -> None:
    given = {
        "size": int(node.parameters["size"]), "alpha": float(node.parameters["alpha"]),
        "beta": float(node.parameters["beta"]), "bias": float(node.parameters["bias"]),
    }  # fmt: skip
    shape = node.view.tensor(0).shape
    if len(shape) < 2:
        raise node.refuse(f"rank {len(shape)}")
    x = node.real(0)
    if len(shape) != 4:
        x = node.emit("Reshape", x, node.ints(shape[0], shape[1], 1, prod(shape[2:])))
    found = node.emit("LRN", x, **given)
    node.store(found if len(shape) == 4 else node.emit("Reshape", found, node.ints(*shape)))


@lowers("MeanVarianceNormalization")
def mean_variance(node: LoweredNode) -> None:
    axes, x = list(node.parameters["axes"]), node.real(0)
    centred = node.emit("Sub", x, _mean(node, x, axes))
    deviation = node.emit("Sqrt", _mean(node, _square(node, centred), axes))
    node.store(node.emit("Div", centred, node.emit("Add", deviation, node.const(1e-9))))


@lowers("GroupNormalization")
def group_norm(node: LoweredNode) -> None:
    """Gamma and beta per channel, or per group."""
    shape, groups = node.view.tensor(0).shape, int(node.parameters["num_groups"])
    cells = node.emit("Reshape", node.real(0), node.ints(shape[0], groups, -1))
    centred = node.emit("Sub", cells, _mean(node, cells, [2]))
    variance = node.emit(
        "Add", _mean(node, _square(node, centred), [2]), node.const(node.parameters["epsilon"])
    )
    normal = node.emit("Div", centred, node.emit("Sqrt", variance))
    out = node.emit("Reshape", normal, node.ints(*shape))
    wide = (1, -1, *([1] * (len(shape) - 2)))
    for position, kind in ((1, "Mul"), (2, "Add")):
        if not node.view.is_const(position):
            raise node.refuse("gamma or beta that the network computes")
        each = node.constant(position).reshape(-1)
        out = node.emit(kind, out, node.const(np.repeat(each, shape[1] // each.size).reshape(wide)))
    node.store(out)
