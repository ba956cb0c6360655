"""Indexed reads and writes."""

from __future__ import annotations

from typing import Any

import numpy as np
from rknnlite_graph.node_view import NodeView

from rknnlite.errors import InputInvalid

from ..registry import real_op
from ..values import Array

__all__: list[str] = []


def _checked(view: NodeView, index: Array, size: int) -> Array:
    whole = index.astype(np.int64)
    if whole.size and (whole.min() < -size or whole.max() >= size):
        text = f"index {int(whole.min())}..{int(whole.max())} outside 0..{size - 1}"
        if view.is_const(1):
            raise view.fail(text)
        raise InputInvalid(f"node {view.node.label()}: {text}; check the input ids")
    return whole.astype(np.intp, copy=False)


def _check_stored(view: NodeView) -> None:
    """Places that the file holds lie inside: looked at once, when the node is prepared."""
    if not view.is_const(1):
        return
    index, shape = view.constant(1), view.tensor(0).shape
    if view.node.op in ("GatherND", "ScatterND"):
        first = int(view.parameters.get("batch_dims", 0))
        for i in range(index.shape[-1]):
            _checked(view, index[..., i], shape[first + i])
    else:
        _checked(view, index, shape[int(view.parameters["axis"])])


@real_op("Gather", check=_check_stored)
def gather(view: NodeView, x: Array, index: Array) -> Array:
    axis = int(view.parameters["axis"])
    return np.take(x, _checked(view, index, x.shape[axis]), axis=axis).reshape(view.outputs[0].shape)


@real_op("GatherElements", check=_check_stored)
def gather_elements(view: NodeView, x: Array, index: Array) -> Array:
    axis = int(view.parameters["axis"])
    whole = _checked(view, index, x.shape[axis])
    return np.take_along_axis(x, np.where(whole < 0, whole + x.shape[axis], whole), axis=axis)


@real_op("GatherND", check=_check_stored)
def gather_nd(view: NodeView, x: Array, index: Array) -> Array:
    batch = int(view.parameters["batch_dims"])
    whole = index.astype(np.int64)
    depth = whole.shape[-1]
    if batch == 0:
        places = tuple(_checked(view, whole[..., i], x.shape[i]) for i in range(depth))
        return x[places]
    lead = int(np.prod(x.shape[:batch]))
    cells, picks = x.reshape(lead, *x.shape[batch:]), whole.reshape(lead, *whole.shape[batch:])
    rows = [c[tuple(p[..., i] for i in range(depth))] for c, p in zip(cells, picks)]
    return np.stack(rows).reshape(view.outputs[0].shape)


_REDUCTIONS: dict[str, Any] = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _scatter(view: NodeView, x: Array, places: tuple[Array, ...], updates: Array) -> Array:
    """A copy of ``x`` with ``updates`` written or, by attribute ``reduction``, joined at ``places``."""
    out = x.copy()
    reduction = str(view.attrs.get("reduction") or "none")
    if reduction == "none":
        out[places] = updates
    elif reduction in _REDUCTIONS:
        _REDUCTIONS[reduction].at(out, places, updates)
    else:
        raise view.fail(f"reduction {reduction!r} is not one of none, {', '.join(_REDUCTIONS)}")
    return out


@real_op("ScatterND", check=_check_stored)
def scatter_nd(view: NodeView, x: Array, index: Array, updates: Array) -> Array:
    whole = index.astype(np.int64)
    places = tuple(_checked(view, whole[..., i], x.shape[i]) for i in range(whole.shape[-1]))
    return _scatter(view, x, places, updates)


@real_op("ScatterElements", "Scatter", check=_check_stored)
def scatter_elements(view: NodeView, x: Array, index: Array, updates: Array) -> Array:
    axis = int(view.parameters["axis"]) % x.ndim
    places: list[Array] = list(np.indices(index.shape, sparse=True))
    places[axis] = _checked(view, index, x.shape[axis])
    return _scatter(view, x, tuple(places), updates)


@real_op("OneHot")
def one_hot(view: NodeView, index: Array, depth: Array, values: Array) -> Array:
    axis = int(view.parameters["axis"])
    count = int(depth.reshape(-1)[0])
    if view.outputs[0].shape[axis] != count:
        raise view.fail(f"depth {count}, but its output is {list(view.outputs[0].shape)}")
    off, on = values.reshape(-1)[:2]
    whole = np.mod(index.astype(np.int64), count)
    hot = np.expand_dims(whole, axis)
    shape = [1] * hot.ndim
    shape[axis] = count
    return np.where(hot == np.arange(count).reshape(shape), on, off)


@real_op("ReverseSequence")
def reverse_sequence(view: NodeView, x: Array, lengths: Array) -> Array:
    time, batch = int(view.parameters["time_axis"]), int(view.parameters["batch_axis"])
    moved = np.moveaxis(x, (batch, time), (0, 1)).copy()
    for row, length in zip(moved, lengths.reshape(-1).astype(int)):
        row[:length] = row[:length][::-1]
    return np.moveaxis(moved, (0, 1), (batch, time))
