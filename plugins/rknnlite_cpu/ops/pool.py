"""Pooling over windows; bottom and right padding follow from the output shape."""

from __future__ import annotations

import math

import numpy as np
from rknnlite_graph.node_view import NodeView

from ..kernels.buffers import empty
from ..kernels.conv import ConvSpec, pad2d, windows
from ..kernels.parallel import channel_blocks, run_blocks
from ..registry import centred_kernel, check_operands, op, real_kernel, real_op
from ..values import Array, Kernel, decode, encode

__all__ = ["window_spec"]


def window_spec(view: NodeView) -> ConvSpec:
    """The windows of a pool; raises ModelInvalid for attributes that do not fit its tensors."""
    x, y = view.tensor(0), view.outputs[0]
    if len(x.shape) != 4 or len(y.shape) != 4:
        raise view.fail(f"pooling of shape {list(x.shape)} to {list(y.shape)} is not supported")
    kernel = view.attrs.get("kernel_shape") or [1, 1]
    strides = view.attrs.get("strides") or [1, 1]
    dilations = view.attrs.get("dilations") or [1, 1]
    pads = view.attrs.get("pads") or [0, 0, 0, 0]
    sizes = [*kernel, *strides, *dilations]
    numbers = [*sizes, *pads]
    if len(numbers) < 8 or not all(isinstance(n, int) and 0 <= n <= 4096 for n in numbers) or min(sizes) < 1:
        raise view.fail(f"kernel {kernel}, strides {strides}, pads {pads} are out of range")
    spec = ConvSpec(
        kernel=(kernel[0], kernel[1]),
        strides=(strides[0], strides[1]),
        dilations=(dilations[0], dilations[1]),
        pads=(pads[0], pads[1]),
        in_size=(x.shape[2], x.shape[3]),
        out_size=(y.shape[2], y.shape[3]),
    )
    if any(p > 4096 for p in spec.padding):
        raise view.fail(f"geometry {spec} does not fit its tensors")
    return spec


_HALF = np.int32(-1 << 13)
"""The bits of a float32 that a float16 has."""


@op("MaxPool")
def max_pool(view: NodeView) -> Kernel:
    """The largest value of each window; requantised where the scales differ."""
    spec, x, y = window_spec(view), view.tensor(0), view.outputs[0]
    same = x.quant == y.quant and x.dtype is y.dtype
    if len(view.outputs) > 1 and view.attrs.get("storage_order"):
        raise view.fail("places counted by columns (storage_order 1) are not supported")

    def run(values: list[Array]) -> list[Array]:
        pooled = maximum(values[0], spec)
        results = [pooled if same else encode(decode(pooled, x), y)]
        if len(view.outputs) > 1:
            results.append(_max_indices(values[0], spec).astype(view.outputs[1].dtype.numpy))
        return results

    return run


def maximum(x: Array, spec: ConvSpec) -> Array:
    """Maximum over windows [N, C, H, W] -> [N, C, OH, OW] of float32, block by block of channels."""
    n, c, h, w = x.shape
    out = empty((n, c, *spec.out_size))

    def work(channels: slice) -> None:
        _largest(x[:, channels], spec, out[:, channels])

    run_blocks(work, channel_blocks(c, n * h * w), x.size)
    return out


def _largest(x: Array, spec: ConvSpec, out: Array) -> None:
    """Rows first, then columns."""
    padded = pad2d(x, spec.padding, -np.inf)
    (kh, kw), (ty, tx), (dy, dx), (oh, ow) = spec.kernel, spec.strides, spec.dilations, spec.out_size
    rows = empty((*x.shape[:2], oh, padded.shape[3]))
    rows[...] = padded[:, :, 0 : (oh - 1) * ty + 1 : ty]
    for k in range(1, kh):
        np.maximum(rows, padded[:, :, k * dy : k * dy + (oh - 1) * ty + 1 : ty], out=rows)
    out[...] = rows[..., 0 : (ow - 1) * tx + 1 : tx]
    for k in range(1, kw):
        np.maximum(out, rows[..., k * dx : k * dx + (ow - 1) * tx + 1 : tx], out=out)


def _max_indices(x: Array, spec: ConvSpec) -> Array:
    n, c, h, w = x.shape
    flat = np.arange(n * c * h * w, dtype=np.float64).reshape(x.shape)
    view = windows(pad2d(x, spec.padding, -np.inf), spec)
    places = windows(pad2d(flat, spec.padding, -1), spec)
    shape = (n, c, spec.kernel[0] * spec.kernel[1], *spec.out_size)
    best = view.reshape(shape).argmax(axis=2)
    return np.take_along_axis(places.reshape(shape), best[:, :, None], axis=2)[:, :, 0]


@real_op("AveragePool", rank=4, check=window_spec)
def average_pool(view: NodeView, x: Array) -> Array:
    """Mean over each window; padding counts only with count_include_pad.

    Elements are added in the order of the kernel, like the vendor's simulator: means often lie between two steps exactly.
    """
    spec = window_spec(view)
    total = _sum_in_order(windows(pad2d(x, spec.padding), spec))
    if view.attrs.get("count_include_pad"):
        top, left = spec.pads
        pads = list(view.attrs.get("pads", [0, 0, 0, 0]))
        ones = np.ones((1, 1, spec.in_size[0] + top + pads[2], spec.in_size[1] + left + pads[3]), np.float32)
        inner = spec.padding
        ones = pad2d(ones, (0, 0, inner[2] - pads[2], inner[3] - pads[3]))
    else:
        ones = pad2d(np.ones((1, 1, *spec.in_size), np.float32), spec.padding)
    counts = windows(ones, spec).sum(axis=(2, 3), dtype=np.float32)
    found = total / np.maximum(counts, 1)
    if view.attrs.get("cut_off"):  # float16 of the first toolkit's NPU, in one case: towards zero
        found.view(np.int32)[...] &= _HALF
    return found


def _sum_in_order(parts: Array) -> Array:
    """Sum [N, C, KH, KW, OH, OW] over the window, row by row as the vendor's simulator does: of int8 values many means
    are ties, and the last bit decides them."""
    rows, columns = parts.shape[2:4]
    total = np.zeros((*parts.shape[:2], *parts.shape[4:]), np.float32)
    for place in range(rows * columns):
        total += parts[:, :, place // columns, place % columns]
    return total


@op("GlobalAveragePool")
def global_average_pool(view: NodeView) -> Kernel:
    """Of 8 bits: exact sums of integers."""
    check_operands(view, 1)
    params, over = view.tensor(0).quant, tuple(range(2, len(view.tensor(0).shape)))
    if not view.tensor(0).in_eight_bits or params is None:
        return real_kernel(view, lambda _, x: x.mean(axis=over, keepdims=True, dtype=np.float32))
    scale, count = np.float32(params.scale), np.float32(math.prod(view.tensor(0).shape[2:]))
    return centred_kernel(
        view,
        lambda _, x: x.sum(axis=over, keepdims=True, dtype=np.float64).astype(np.float32) * scale / count,
    )


@real_op("GlobalMaxPool")
def global_max_pool(view: NodeView, x: Array) -> Array:
    return x.max(axis=tuple(range(2, x.ndim)), keepdims=True)


def _windows_of(view: NodeView) -> None:
    if view.node.op == "LpPool":
        window_spec(view)


@real_op("LpPool", "GlobalLpPool", check=_windows_of)
def lp_pool(view: NodeView, x: Array) -> Array:
    p = np.float32(view.parameters["p"])
    powered = np.abs(x) ** p
    if view.node.op == "GlobalLpPool":
        return powered.sum(axis=tuple(range(2, x.ndim)), keepdims=True) ** (1 / p)
    spec = window_spec(view)
    return windows(pad2d(powered, spec.padding), spec).sum(axis=(2, 3)) ** (1 / p)
