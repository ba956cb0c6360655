"""Pooling over boxes in a feature map, and unpooling: as ONNX says, in float, on the CPU of every SoC."""

from __future__ import annotations

import math

import numpy as np
from rknnlite_graph.node_view import NodeView

from ..registry import real_op
from ..values import Array

__all__: list[str] = []

_MOST_SAMPLES = 1 << 16
"""Per bin and direction; a box that needs more is no box in a picture."""


def _half_pixel(view: NodeView) -> bool:
    """Whether corners lie half an element before the box; the vendor's converter takes means only."""
    view.choice("mode", "avg")
    return view.choice("coordinate_transformation_mode", "output_half_pixel", "half_pixel") == "half_pixel"


@real_op("RoiAlign", check=_half_pixel)
def roi_align(view: NodeView, x: Array, boxes: Array, items: Array) -> Array:
    """The mean of bilinear samples in each bin of each box (left, top, right, bottom).

    Both directions are independent: a bin is a weighted sum of rows, and of columns. Files that do not say
    ``coordinate_transformation_mode`` are of operator sets before 16, which had no such attribute.
    """
    half = _half_pixel(view)
    shift, least = np.float32(0.5 * half), np.float32(-np.inf if half else 1.0)
    ratio = int(view.parameters["sampling_ratio"])
    *_, height, width = view.outputs[0].shape
    out = np.zeros(view.outputs[0].shape, np.float32)
    corners = boxes.astype(np.float32) * np.float32(view.parameters["spatial_scale"]) - shift
    for number, (left, top, right, bottom) in enumerate(corners):
        rows = _weights(view, top, max(bottom - top, least), height, ratio, x.shape[2])
        columns = _weights(view, left, max(right - left, least), width, ratio, x.shape[3])
        out[number] = rows @ x[_item(view, x, items.reshape(-1)[number])] @ columns.T
    return out


def _weights(
    view: NodeView, start: np.float32, size: np.float32, bins: int, ratio: int, length: int
) -> Array:
    """How much every element of a row counts in every bin, [bins, length]."""
    samples = float(ratio) if ratio > 0 else math.ceil(size / bins) if np.isfinite(size) else math.nan
    if not samples <= _MOST_SAMPLES:
        raise view.fail(f"a box of {size} elements in a feature map of {length}")
    weights = np.zeros((bins, length), np.float32)
    if samples <= 0:
        return weights
    count, step = int(samples), np.float32(size / bins)
    places = np.arange(bins, dtype=np.float32)[:, None] * step + start
    places = places + (np.arange(count, dtype=np.float32) + np.float32(0.5)) * step / np.float32(count)
    inside = (places >= -1) & (places <= length)
    places = np.clip(np.where(inside, places, 0), 0, length - 1)
    low = places.astype(np.int64)
    part = places - low
    bin_of = np.broadcast_to(np.arange(bins)[:, None], places.shape)
    np.add.at(weights, (bin_of, low), np.where(inside, 1 - part, 0))
    np.add.at(weights, (bin_of, np.minimum(low + 1, length - 1)), np.where(inside, part, 0))
    return weights / np.float32(count)


def _item(view: NodeView, x: Array, number: float) -> int:
    if not 0 <= number < x.shape[0]:
        raise view.fail(f"a box in item {number} of a batch of {x.shape[0]}")
    return int(number)


@real_op("MaxRoiPool")
def max_roi_pool(view: NodeView, x: Array, boxes: Array) -> Array:
    """The largest element in each bin of each box (item, left, top, right, bottom), corners rounded; 0 in empty bins."""
    *_, height, width = view.outputs[0].shape
    out = np.zeros(view.outputs[0].shape, np.float32)
    scaled = boxes[:, 1:].astype(np.float32) * np.float32(view.parameters["spatial_scale"])
    if not np.abs(scaled).max(initial=0) < _MOST_SAMPLES:
        raise view.fail(
            f"a box with the corner {np.abs(scaled).max()} in a feature map of {list(x.shape[2:])}"
        )
    corners = np.trunc(scaled + np.copysign(np.float32(0.5), scaled)).astype(np.int64)
    for number, (left, top, right, bottom) in enumerate(corners.tolist()):
        feature = x[_item(view, x, boxes[number, 0])]
        rows = _bins(top, bottom, height, x.shape[2])
        columns = _bins(left, right, width, x.shape[3])
        for i, (first, last) in enumerate(rows):
            for j, (begin, end) in enumerate(columns):
                cell = feature[:, first:last, begin:end]
                if cell.size:
                    out[number, :, i, j] = cell.max(axis=(1, 2))
    return out


def _bins(first: int, last: int, count: int, length: int) -> list[tuple[int, int]]:
    """(begin, end) of the bins of a box from ``first`` to ``last``, both included."""
    step = np.float32(max(last - first + 1, 1)) / np.float32(count)
    edges = [(math.floor(i * step) + first, math.ceil((i + 1) * step) + first) for i in range(count)]
    return [(min(max(begin, 0), length), min(max(end, 0), length)) for begin, end in edges]


@real_op("MaxUnpool")
def max_unpool(view: NodeView, x: Array, places: Array, shape: Array | None = None) -> Array:
    """Elements back to where the maxima were, zeros elsewhere; ``places`` count through the whole output."""
    out = np.zeros(view.outputs[0].shape, np.float32)
    index = places.reshape(-1).astype(np.int64)
    if index.size and not 0 <= index.min() <= index.max() < out.size:
        raise view.fail(f"places {index.min()} to {index.max()} in an output of {out.size} elements")
    out.reshape(-1)[index] = x.reshape(-1)
    return out
