"""Resize, nearest and linear, and grid sampling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from rknnlite_graph.node_view import NodeView

from ..registry import op, real_op
from ..values import Array, Kernel, decode, encode

if TYPE_CHECKING:
    from rknnlite_graph.resize_coordinates import Linear

__all__: list[str] = []


@op("Resize", "Upsample")
def resize(view: NodeView) -> Kernel:
    """Nearest along each axis whose size changes; linear over maps as a sum of four corners, else axis by axis."""
    from rknnlite_graph.resize_coordinates import Linear, resize_steps

    source, target, steps = view.tensor(0), view.outputs[0], resize_steps(view)
    if isinstance(steps, Linear):
        linear = _bilinear if steps.corners else _linear
        return lambda values: [encode(linear(decode(values[0], source), steps), target)]
    if source.quant == target.quant and source.dtype is target.dtype:
        return lambda values: [_nearest(values[0], steps)]
    return lambda values: [encode(_nearest(decode(values[0], source), steps), target)]


def _nearest(x: Array, places: Mapping[int, Array]) -> Array:
    for axis, index in places.items():
        x = np.take(x, index, axis=axis)
    return x


def _bilinear(x: Array, steps: Linear) -> Array:
    """Four corners, added in the order of the vendor's simulator: of int8 values many sums are ties, and the last bit
    decides them."""
    rows, columns = steps.ends[2], steps.ends[3]
    total = np.float32(0)
    for row, down in ((rows.low, rows.before), (rows.high, rows.after)):
        line = np.take(x, row, axis=2)
        for column, across in ((columns.low, columns.before), (columns.high, columns.after)):
            total = total + np.take(line, column, axis=3) * (across * down[:, None])
    return np.asarray(total)


def _linear(x: Array, steps: Linear) -> Array:
    for axis, ends in steps.ends.items():
        shape = [-1 if i == axis else 1 for i in range(x.ndim)]
        low, high = (np.take(x, index, axis=axis) for index in (ends.low, ends.high))
        x = low * ends.before.reshape(shape) + high * ends.after.reshape(shape)
    return x


def _grid_modes(view: NodeView) -> tuple[str, str]:
    return (
        view.choice("mode", "bilinear", "linear", "nearest", "bicubic", "cubic"),
        view.choice("padding_mode", "zeros", "border", "reflection"),
    )


@real_op("GridSample", rank=4, check=_grid_modes)
def grid_sample(view: NodeView, x: Array, grid: Array) -> Array:
    """ONNX GridSample on [N, C, H, W] with grid [N, OH, OW, 2]."""
    align = bool(view.attrs.get("align_corners", 0))
    mode, padding = _grid_modes(view)
    size = np.array([x.shape[3], x.shape[2]], np.float64)
    g = grid.astype(np.float64)
    place = (g + 1) / 2 * (size - 1) if align else ((g + 1) * size - 1) / 2
    px, py = place[..., 0], place[..., 1]
    if mode == "nearest":
        return _gather(x, np.rint(py), np.rint(px), padding, align)
    if mode in ("bicubic", "cubic"):
        return _cubic(x, py, px, padding, align)
    if padding != "zeros":
        py, px = _bound(py, x.shape[2], padding, align), _bound(px, x.shape[3], padding, align)
    y0, x0 = np.floor(py), np.floor(px)
    out = np.zeros((), np.float32)
    for dy in (0, 1):
        for dx in (0, 1):
            weight = np.abs(1 - dy - (py - y0)) * np.abs(1 - dx - (px - x0))
            out = out + _gather(x, y0 + dy, x0 + dx, padding, align) * weight[:, None].astype(np.float32)
    return out


def _bound(position: Array, size: int, padding: str, align: bool) -> Array:
    if padding == "reflection":
        low, high = (0.0, size - 1.0) if align else (-0.5, size - 0.5)
        span = high - low
        if span <= 0:
            return np.zeros_like(position)
        folded = np.mod(position - low, 2 * span)
        position = np.where(folded > span, 2 * span - folded, folded) + low
    return np.clip(position, 0, size - 1)


def _gather(x: Array, py: Array, px: Array, padding: str, align: bool) -> Array:
    h, w = x.shape[2:]
    if padding == "zeros":
        inside = (py >= 0) & (py <= h - 1) & (px >= 0) & (px <= w - 1)
    else:
        inside = np.ones(py.shape, bool)
        py, px = _bound(py, h, padding, align), _bound(px, w, padding, align)
    iy, ix = (np.clip(np.nan_to_num(p), 0, n - 1).astype(np.intp) for p, n in ((py, h), (px, w)))
    batch = np.arange(x.shape[0]).reshape(-1, 1, 1)
    return np.moveaxis(x[batch, :, iy, ix], -1, 1) * inside[:, None]


def _cubic(x: Array, py: Array, px: Array, padding: str, align: bool) -> Array:
    y0, x0 = np.floor(py), np.floor(px)
    out = np.zeros((), np.float32)
    for dy in range(-1, 3):
        for dx in range(-1, 3):
            weight = _cubic_weight(py - y0 - dy) * _cubic_weight(px - x0 - dx)
            out = out + _gather(x, y0 + dy, x0 + dx, padding, align) * weight[:, None].astype(np.float32)
    return out


def _cubic_weight(t: Array, a: float = -0.75) -> Array:
    t = np.abs(t)
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = (((t - 5) * t + 8) * t - 4) * a
    return np.where(t <= 1, near, np.where(t < 2, far, 0))
