"""Resize and grid sampling: every coordinate mode of ONNX, nearest and linear, with the stored scales."""

from __future__ import annotations

import numpy as np

from rknnlite.graph.view import NodeView

from ..registry import op, real_op
from ..values import Array, Kernel, decode, encode

__all__: list[str] = []

_PLACES = (
    "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "tf_half_pixel_for_nn", "tf_crop_and_resize",
)  # fmt: skip
_NEIGHBOURS = ("round_prefer_floor", "floor", "ceil", "round_prefer_ceil")


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
    """Separable over the axes whose size changes."""
    source, target = view.tensor(0), view.outputs[0]
    mode = view.choice("mode", "nearest", "linear")
    where = view.choice("coordinate_transformation_mode", *_PLACES)
    neighbour = view.choice("nearest_mode", *_NEIGHBOURS)
    if len(source.shape) != len(target.shape) or 0 in source.shape:
        raise view.fail(f"cannot resize {list(source.shape)} to {list(target.shape)}")
    stored = view.constant(2).reshape(-1).tolist() if view.has(2) and view.is_const(2) else []
    steps: list[tuple[int, Array, Array | None, Array | None]] = []
    for axis, (size, count) in enumerate(zip(source.shape, target.shape)):
        scale = stored[axis] if len(stored) == len(source.shape) and stored[axis] > 0 else count / size
        if size == count and scale == 1:
            continue
        position = coordinates(where, count, size, scale)
        if mode == "nearest":
            index = nearest(position, neighbour)
            steps.append((axis, np.clip(index, 0, size - 1).astype(np.intp), None, None))
            continue
        position = np.clip(position, 0, size - 1)
        low = np.floor(position).astype(np.intp)
        shape = [-1 if i == axis else 1 for i in range(len(source.shape))]
        weight = (position - low).astype(np.float32).reshape(shape)
        steps.append((axis, low, np.minimum(low + 1, size - 1), weight))
    same = source.quant == target.quant and source.dtype is target.dtype and mode == "nearest"

    def run(values: list[Array]) -> list[Array]:
        x = values[0] if same else decode(values[0], source)
        for axis, low, high, weight in steps:
            below = np.take(x, low, axis=axis)
            x = below if high is None else below + (np.take(x, high, axis=axis) - below) * weight
        return [x if same else encode(x, target)]

    return run


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
