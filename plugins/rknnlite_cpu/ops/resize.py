"""Resize and grid sampling: every coordinate mode of ONNX, nearest and linear, with the stored scales."""

from __future__ import annotations

import numpy as np

from ..node_view import NodeView
from ..registry import op, real_op
from ..values import Array, Kernel, decode, encode

__all__: list[str] = []


def coordinates(mode: str, count: int, size: int, scale: float) -> Array:
    """Source coordinate of each of ``count`` outputs along an axis of ``size`` inputs."""
    i, scale = np.arange(count, dtype=np.float32), np.float32(scale)  # float32: 3 / 0.6 is 5, not 4.9999998
    if mode == "asymmetric":
        return i / scale
    if mode == "align_corners":
        return i * np.float32(size - 1) / np.float32(count - 1) if count > 1 else np.zeros(count)
    if mode == "pytorch_half_pixel" and count == 1:
        return np.zeros(count)
    if mode == "tf_half_pixel_for_nn":
        return (i + np.float32(0.5)) / scale
    return (i + np.float32(0.5)) / scale - np.float32(0.5)


def nearest(position: Array, mode: str) -> Array:
    """Which neighbour, by ONNX ``nearest_mode``."""
    if mode == "floor":
        return np.floor(position)
    if mode == "ceil":
        return np.ceil(position)
    if mode == "round_prefer_ceil":
        return np.floor(position + 0.5)
    return np.ceil(position - 0.5)


@op("Resize", "Upsample")
def resize(view: NodeView) -> Kernel:
    """Nearest along each axis whose size changes; linear over maps as a sum of four corners, else axis by axis."""
    source, target = view.tensor(0), view.outputs[0]
    mode = str(view.attrs.get("mode") or "nearest")
    where = str(view.attrs.get("coordinate_transformation_mode") or "half_pixel")
    if mode not in ("nearest", "linear"):
        raise view.fail(f"resize mode {mode!r} is not supported; use nearest or linear")
    if len(source.shape) != len(target.shape) or 0 in source.shape:
        raise view.fail(f"cannot resize {list(source.shape)} to {list(target.shape)}")
    stored = view.constant(2).reshape(-1).tolist() if view.has(2) and view.is_const(2) else []
    places: dict[int, Array] = {}
    for axis, (size, count) in enumerate(zip(source.shape, target.shape)):
        scale = stored[axis] if len(stored) == len(source.shape) and stored[axis] > 0 else count / size
        if size != count or scale != 1:
            places[axis] = coordinates(where, count, size, scale)
    if mode == "nearest":
        rule = str(view.attrs.get("nearest_mode") or "round_prefer_floor")
        near = {
            axis: np.clip(nearest(at, rule), 0, source.shape[axis] - 1).astype(np.intp)
            for axis, at in places.items()
        }
        same = source.quant == target.quant and source.dtype is target.dtype
        return lambda values: [
            _nearest(values[0], near) if same else encode(_nearest(decode(values[0], source), near), target)
        ]
    if len(source.shape) == 4 and places and min(places) >= 2:
        rows, columns = (_ends(places.get(axis), source.shape[axis], target.shape[axis]) for axis in (2, 3))
        return lambda values: [encode(_bilinear(decode(values[0], source), rows, columns), target)]
    ends = {axis: _ends(at, source.shape[axis], target.shape[axis]) for axis, at in places.items()}
    return lambda values: [encode(_linear(decode(values[0], source), ends), target)]


Ends = tuple[Array, Array, Array, Array]
"""Along an axis, per output: its two neighbours and their weights."""


def _ends(position: Array | None, size: int, count: int) -> Ends:
    at = np.arange(count, dtype=np.float32) if position is None else position.astype(np.float32)
    at = np.clip(at, np.float32(0), np.float32(size - 1))
    low = np.floor(at).astype(np.intp)
    high = np.minimum(low + 1, size - 1)
    half = np.where(low == high, np.float32(0.5), np.float32(0))  # the last one, twice
    return low, high, np.abs(at - high.astype(np.float32)) + half, at - low.astype(np.float32) + half


def _nearest(x: Array, places: dict[int, Array]) -> Array:
    for axis, index in places.items():
        x = np.take(x, index, axis=axis)
    return x


def _bilinear(x: Array, rows: Ends, columns: Ends) -> Array:
    """Four corners, added in the order of the vendor's simulator: of int8 values many sums are ties, and the last bit
    decides them."""
    total = np.float32(0)
    for row, down in ((rows[0], rows[2]), (rows[1], rows[3])):
        line = np.take(x, row, axis=2)
        for column, across in ((columns[0], columns[2]), (columns[1], columns[3])):
            total = total + np.take(line, column, axis=3) * (across * down[:, None])
    return np.asarray(total)


def _linear(x: Array, ends: dict[int, Ends]) -> Array:
    for axis, (low, high, before, after) in ends.items():
        shape = [-1 if i == axis else 1 for i in range(x.ndim)]
        x = np.take(x, low, axis=axis) * before.reshape(shape) + np.take(x, high, axis=axis) * after.reshape(
            shape
        )
    return x


@real_op("GridSample", rank=4)
def grid_sample(view: NodeView, x: Array, grid: Array) -> Array:
    """ONNX GridSample on [N, C, H, W] with grid [N, OH, OW, 2]."""
    align = bool(view.attrs.get("align_corners", 0))
    mode = str(view.attrs.get("mode") or "bilinear")
    padding = str(view.attrs.get("padding_mode") or "zeros")
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
