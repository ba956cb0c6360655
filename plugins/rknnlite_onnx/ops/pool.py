"""Pooling over windows."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.tensor import DType

from ..lowered_values import Rep
from ..registry import LoweredNode, lowers
from ..windows import far_padding
from .reduce import sum_of_bytes

__all__: list[str] = []

_MOST_TAPS = 1024


def _window(node: LoweredNode) -> dict[str, Any]:
    """Attributes of an ONNX pooling; bottom and right padding follow from the shape of the result."""
    (ih, iw), (oh, ow) = node.view.tensor(0).shape[2:], node.outputs[0].shape[2:]
    kernel = list(node.attrs.get("kernel_shape") or [1, 1])
    strides = list(node.attrs.get("strides") or [1, 1])
    dilations = list(node.attrs.get("dilations") or [1, 1])
    top, left = (list(node.attrs.get("pads") or [0, 0]))[:2]
    bottom, right = far_padding((ih, iw), (oh, ow), kernel, strides, dilations, (top, left))
    pads = [top, left, max(0, bottom), max(0, right)]
    found = {"kernel_shape": kernel, "strides": strides, "pads": pads}
    return {**found, "dilations": dilations} if dilations != [1, 1] else found


def _check_rank(node: LoweredNode) -> None:
    if len(node.view.tensor(0).shape) != 4:
        raise node.refuse(f"pooling of shape {list(node.view.tensor(0).shape)}")


@lowers("MaxPool")
def max_pool(node: LoweredNode) -> None:
    _check_rank(node)
    if len(node.outputs) > 1:
        values = node.emitter.nodes("MaxPool", [node.real(0)], 2, **_window(node))
        node.store(values[0])
        node.store_whole(values[1], 1)
        return
    value, rep = node.moving()
    if (
        rep is None
        and node.view.tensor(0).quant is None
        and node.view.tensor(0).dtype
        not in (
            DType.FLOAT16,
            DType.FLOAT32,
        )
    ):
        raise node.refuse("pooling of integers")
    if rep is Rep.ELEMENTS:  # onnxruntime pools floats 8 to 40 times as fast as bytes
        pooled = node.emit("MaxPool", node.emitter.cast(value, np.float32), **_window(node))
        node.moved(node.emitter.cast(pooled, np.uint8), rep)
        return
    node.moved(node.emit("MaxPool", value, **_window(node)), rep)


@lowers("AveragePool")
def average_pool(node: LoweredNode) -> None:
    """What ONNX calls padding counts, with that attribute; what the shape of the result adds does not."""
    _check_rank(node)
    window, counted = _window(node), bool(node.attrs.get("count_include_pad"))
    if node.precise and node.attrs.get("cut_off"):
        raise node.refuse("a mean that is cut off")
    beyond = counted and window["pads"] != _given_pads(node)
    if (node.exact and node.outputs[0].quant is not None) or beyond or "dilations" in window:
        _ordered_average(node, window, counted)
        return
    node.store(node.emit("AveragePool", node.real(0), count_include_pad=int(counted), **window))


def _given_pads(node: LoweredNode) -> list[int]:
    return list(node.attrs.get("pads") or [0, 0, 0, 0])


def _ordered_average(node: LoweredNode, window: dict[str, Any], counted: bool) -> None:
    """Elements added in the order of the kernel, as the CPU reference does: means often lie between two steps exactly.

    Engines add in an order of their own, whether in a pooling or in a convolution by ones.
    """
    if prod(window["kernel_shape"]) > _MOST_TAPS:
        raise node.refuse(f"a mean of {window['kernel_shape']} elements one by one")
    pads, padded, sizes = window["pads"], node.real(0), _sizes(node, window, counted)
    if any(pads):
        padded = node.emit("Pad", padded, node.ints(0, 0, *pads[:2], 0, 0, *pads[2:]))
    (height, width), (sy, sx), (dy, dx) = sizes.shape, window["strides"], window.get("dilations", [1, 1])
    taps = []
    for row in range(window["kernel_shape"][0]):
        rows = _every(node, padded, row * dy, sy, height, 2)
        taps += [_every(node, rows, column * dx, sx, width, 3) for column in range(window["kernel_shape"][1])]
    node.store(node.emit("Div", node.emit("Sum", *taps), node.const(sizes)))


def _sizes(node: LoweredNode, window: dict[str, Any], counted: bool) -> NDArray[np.float32]:
    """How many elements each window has, [OH, OW]."""
    pads, (height, width) = window["pads"], node.outputs[0].shape[2:]
    (sy, sx), (dy, dx) = window["strides"], window.get("dilations", [1, 1])
    given = [min(a, b) for a, b in zip(_given_pads(node), pads)]
    ones = np.ones(node.view.tensor(0).shape[2:], np.float32)
    ones = np.pad(ones, [(given[0], given[2]), (given[1], given[3])], constant_values=float(counted))
    ones = np.pad(ones, [(pads[0] - given[0], pads[2] - given[2]), (pads[1] - given[1], pads[3] - given[3])])
    sizes = np.zeros((height, width), np.float32)
    for row, column in np.ndindex(*window["kernel_shape"]):
        sizes += ones[row * dy :: sy, column * dx :: sx][:height, :width]
    return np.maximum(sizes, 1)


def _every(node: LoweredNode, name: str, start: int, step: int, count: int, axis: int) -> str:
    """``count`` rows or columns, ``step`` apart."""
    end = start + (count - 1) * step + 1
    return node.emit("Slice", name, node.ints(start), node.ints(end), node.ints(axis), node.ints(step))


@lowers("GlobalAveragePool", "GlobalMaxPool")
def global_pool(node: LoweredNode) -> None:
    """Of 8 bits exact sums."""
    if node.view.node.op == "GlobalAveragePool" and node.small(0) and node.exact:
        node.store(sum_of_bytes(node, range(2, len(node.view.tensor(0).shape)), mean=True))
        return
    node.store(node.emit(node.view.node.op, node.real(0)))


@lowers("LpPool", "GlobalLpPool")
def lp_pool(node: LoweredNode) -> None:
    p = int(node.parameters["p"])
    if node.view.node.op == "GlobalLpPool":
        node.store(node.emit("GlobalLpPool", node.real(0), p=p))
        return
    _check_rank(node)
    node.store(node.emit("LpPool", node.real(0), p=p, **_window(node)))
