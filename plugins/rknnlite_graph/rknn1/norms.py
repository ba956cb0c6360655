"""Normalisations, softmax, reductions, products of matrices."""

from __future__ import annotations

import numpy as np

from rknnlite.tensor import DType

from .description import NodeEntry
from .functions import axis_of, real
from .graph import GraphBuilder, lowers
from .layers import numbers

__all__: list[str] = []

_SOFTMAX_HAS_AXIS = (1, 1, 7)
_NORMALISE_HAS_AXIS = (1, 1, 13)
_CHANNELS = 2
_L2_EPSILON = 1e-12
_REDUCTIONS = ("SUM", "MEAN", "MAX", "MIN", "PROD")


@lowers("SOFTMAX")
def softmax(build: GraphBuilder, entry: NodeEntry) -> None:
    """Along the innermost axis for ranks below 3, else along the channels, unless the file names another."""
    x = build.input(entry)
    shape = build.shape(x)
    rank = len(shape)
    axis = rank - 1 if rank < 3 else rank - 3
    if build.found.ovxlib >= _SOFTMAX_HAS_AXIS and "axis" in entry.attrs:
        axis = axis_of(build, entry, rank)
    beta = real(entry, "beta", 1.0)
    if beta != 1.0:
        scaled = build.add(f"{entry.name}_scaled", DType.FLOAT32, shape)
        build.emit("Mul", entry, [x, build.number(entry, np.full(1, beta), "beta")], [scaled])
        x = scaled
    build.emit("Softmax", entry, [x], [build.output(entry, shape)], axis=axis)


@lowers("BATCH_NORM")
def batch_norm(build: GraphBuilder, entry: NodeEntry) -> None:
    """Slots 1 mean, 2 variance, 3 gamma, 4 beta."""
    x = build.input(entry)
    mean, variance, gamma, beta = (
        build.elements(build.constant(entry, slot)).reshape(-1).astype(np.float64) for slot in (1, 2, 3, 4)
    )
    factor = gamma / np.sqrt(variance + real(entry, "eps", 1e-5))
    scale, offset = build.number(entry, factor, "gamma"), build.number(entry, beta - mean * factor, "beta")
    build.emit("BatchNormalization", entry, [x, scale, offset], [build.output(entry, build.shape(x))])


@lowers("LOG_SOFTMAX")
def log_softmax(build: GraphBuilder, entry: NodeEntry) -> None:
    x = build.input(entry)
    if real(entry, "betaValue", 1.0) != 1.0:
        raise build.unsupported(entry, f"a factor of {entry.attrs['betaValue']!r:.40} is not known")
    axis = axis_of(build, entry, len(build.shape(x)), default=0)
    build.emit("LogSoftmax", entry, [x], [build.output(entry, build.shape(x))], axis=axis)


@lowers("L2_NORMALIZE")
def l2_normalize(build: GraphBuilder, entry: NodeEntry) -> None:
    x = build.input(entry)
    rank = len(build.shape(x))
    axis = axis_of(build, entry, rank, default=min(_CHANNELS, rank - 1))
    if build.found.ovxlib < _NORMALISE_HAS_AXIS:
        axis = rank - 1 - min(_CHANNELS, rank - 1)
    y = build.output(entry, build.shape(x))
    build.emit("exNorm", entry, [x], [y], mode="l2", axes=[axis], epsilon=_L2_EPSILON)


@lowers("LAYER_NORM")
def layer_norm(build: GraphBuilder, entry: NodeEntry) -> None:
    """Slots 1 beta, 2 gamma, along the innermost axis."""
    x = build.input(entry)
    rank = len(build.shape(x))
    axis = axis_of(build, entry, rank, default=0)
    if axis != rank - 1:
        raise build.unsupported(entry, f"axis {entry.attrs['axis']} is not known")
    beta, gamma = (build.values(entry, slot) for slot in (1, 2))
    inputs = [x, build.number(entry, gamma, "gamma"), build.number(entry, beta, "beta")]
    y = build.output(entry, build.shape(x))
    build.emit("exNorm", entry, inputs, [y], mode="layer", axes=[axis], epsilon=real(entry, "eps", 1e-5))


@lowers("INSTANCE_NORM")
def instance_norm(build: GraphBuilder, entry: NodeEntry) -> None:
    """Slots 1 beta, 2 gamma."""
    x = build.input(entry)
    beta, gamma = (build.values(entry, slot) for slot in (1, 2))
    inputs = [x, build.number(entry, gamma, "gamma"), build.number(entry, beta, "beta")]
    groups, y = build.shape(x)[1], build.output(entry, build.shape(x))
    build.emit("GroupNormalization", entry, inputs, [y], num_groups=groups, epsilon=real(entry, "eps", 1e-5))


@lowers("LRN", "LRN2")
def lrn(build: GraphBuilder, entry: NodeEntry) -> None:
    """Across channels."""
    x = build.input(entry)
    kind = str(entry.attrs.get("type", ""))
    if (
        kind.endswith("SAME_MAP")
        or entry.attrs.get("axis", _CHANNELS) != _CHANNELS
        or len(build.shape(x)) != 4
    ):
        raise build.unsupported(
            entry, f"type {kind[:60]!r} and axis {entry.attrs.get('axis')!r:.20} are not known"
        )
    size = numbers(build, entry, "size", (5,), 1)[0]
    words = {
        word: real(entry, word, value) for word, value in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0))
    }
    build.emit("LRN", entry, [x], [build.output(entry, build.shape(x))], size=size, **words)


@lowers("REDUCE")
def reduce(build: GraphBuilder, entry: NodeEntry) -> None:
    x = build.input(entry)
    shape = build.shape(x)
    kind = str(entry.attrs.get("type", "")).rpartition("_")[2]
    if kind not in _REDUCTIONS:
        raise build.unsupported(entry, f"reducing by {kind[:40]!r} is not known")
    axes = sorted({_axis(build, entry, value, len(shape)) for value in _axes(build, entry)})
    keep = bool(entry.attrs.get("keep_dim"))
    rest = [1 if i in axes else n for i, n in enumerate(shape) if keep or i not in axes] or [1]
    build.emit(
        f"Reduce{kind.capitalize()}", entry, [x], [build.output(entry, rest)], axes=axes, keepdims=int(keep)
    )


def _axes(build: GraphBuilder, entry: NodeEntry) -> list[object]:
    found = entry.attrs.get("axis")
    if not isinstance(found, list) or not 1 <= len(found) <= 8:
        raise build.fail(entry, f"axis is {found!r:.80}, must be a list")
    return found


def _axis(build: GraphBuilder, entry: NodeEntry, value: object, rank: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -rank <= value < rank:
        raise build.fail(entry, f"axis {value!r:.80} of a tensor of rank {rank}")
    return rank - 1 - value % rank


@lowers("ARGMAX", "ARGMIN")
def arg_reduce(build: GraphBuilder, entry: NodeEntry) -> None:
    x = build.input(entry)
    shape = build.shape(x)
    axis = axis_of(build, entry, len(shape))
    y = build.output(entry, [n for i, n in enumerate(shape) if i != axis] or [1])
    build.emit("ArgMax" if entry.op.endswith("MAX") else "ArgMin", entry, [x], [y], axis=axis, keepdims=0)


@lowers("MATRIXMUL")
def matmul(build: GraphBuilder, entry: NodeEntry) -> None:
    flags = numbers(build, entry, "transpose", (0, 0))
    inputs = [_turned(build, entry, slot, bool(flag)) for slot, flag in enumerate(flags)]
    a, b = (build.shape(x) for x in inputs)
    if len(a) < 2 or len(b) < 2 or a[-1] != b[-2]:
        raise build.fail(entry, f"a product of {list(a)} and {list(b)}")
    shape = [*np.broadcast_shapes(a[:-2], b[:-2]), a[-2], b[-1]]
    build.emit("MatMul", entry, inputs, [build.output(entry, shape)])


def _turned(build: GraphBuilder, entry: NodeEntry, slot: int, turn: bool) -> int:
    x = build.input(entry, slot)
    if not turn:
        return x
    *outer, rows, columns = build.shape(x)
    perm = [*range(len(outer)), len(outer) + 1, len(outer)]
    made = build.helper(entry, x, [*outer, columns, rows], f"turned_{slot}")
    build.emit("Transpose", entry, [x], [made], perm=perm)
    return made
