"""Operators that only move elements, in whatever form those are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from ..lowered_values import Rep, centred_range, element_zero
from ..registry import LoweredNode, lowers

__all__ = ["zeros_around"]


def _along(node: LoweredNode, rank: int, default: int = 0) -> int:
    axis = node.attrs.get("axis", default)
    if not isinstance(axis, int) or not -rank <= axis < rank:
        raise node.refuse(f"axis {axis!r} of a rank {rank} tensor")
    return axis % rank


@lowers("Reshape", "Flatten", "Squeeze", "Unsqueeze")
def reshape(node: LoweredNode) -> None:
    value, rep = node.moving()
    node.moved(node.emit("Reshape", value, node.ints(*node.outputs[0].shape)), rep)


@lowers("Identity")
def identity(node: LoweredNode) -> None:
    """Hands its input on; a floating input of the network stays unrounded."""
    value, rep = node.moving()
    if rep is None and not node.view.is_const(0) and node.same_type():
        rep = Rep.REAL
    node.moved(node.emit("Identity", value), rep)


@lowers("Transpose")
def transpose(node: LoweredNode) -> None:
    rank = len(node.view.tensor(0).shape)
    perm = list(node.attrs.get("perm") or range(rank)[::-1])
    value, rep = node.moving()
    node.moved(node.emit("Transpose", value, perm=perm), rep)


@lowers("Concat")
def concat(node: LoweredNode) -> None:
    """Inputs are requantised to the output's steps, those that have them already are not touched."""
    target, values = node.outputs[0], node.values
    axis = _along(node, len(target.shape))
    rep = values.home(target.index)
    parts = []
    for position, tensor in enumerate(node.view.inputs):
        if tensor is None:
            continue
        if target.quant is not None and node.view.is_const(position):
            parts.append(_stored_constant(node, position, rep))
        elif target.quant is None:
            parts.append(values.rounded(node.native(position), target))
        elif node.same_steps(position):
            parts.append(values.get(tensor.index, rep))
        else:
            parts.append(_requantised(node, position, rep))
    values.put(target.index, rep, node.emit("Concat", *parts, axis=axis))


def _stored_constant(node: LoweredNode, position: int, rep: Rep) -> str:
    """A constant in the steps of the result."""
    target = node.outputs[0]
    assert target.quant is not None
    steps = np.rint(np.asarray(node.view.constant(position), np.float32) / np.float32(target.quant.scale))
    centred = np.clip(steps, *centred_range(target))
    if rep is Rep.ELEMENTS:
        return node.const(centred + element_zero(target), np.uint8)
    return node.const(centred)


def _requantised(node: LoweredNode, position: int, rep: Rep) -> str:
    """One operand in the steps of the result."""
    target, e = node.outputs[0], node.emitter
    assert target.quant is not None
    scale = e.constant(target.quant.scale)
    if rep is Rep.ELEMENTS:
        return e.node(
            "QuantizeLinear", node.real(position), scale, e.constant(element_zero(target), np.uint8)
        )
    return node.values.clipped(e.node("Round", e.node("Div", node.real(position), scale)), target)


@lowers("Split")
def split(node: LoweredNode) -> None:
    axis = _along(node, len(node.view.tensor(0).shape))
    sizes = [tensor.shape[axis] for tensor in node.outputs]
    value, rep = node.moving()
    made = node.emitter.nodes("Split", [value, node.ints(*sizes)], len(sizes), axis=axis)
    for position, name in enumerate(made):
        node.moved(name, rep, position)


@lowers("Slice")
def slice_(node: LoweredNode) -> None:
    shape = node.view.tensor(0).shape
    starts, ends = node.view.ints(1, "starts"), node.view.ints(2, "ends")
    if starts is None or ends is None:
        raise node.refuse("its starts and ends are not stored as constants")
    axes = node.view.ints(3, "axes") or list(range(len(starts)))
    steps = node.view.ints(4, "steps") or [1] * len(starts)
    starts = [
        min(start, shape[axis] - 1) if step < 0 else start for start, axis, step in zip(starts, axes, steps)
    ]
    value, rep = node.moving()
    made = node.emit(
        "Slice", value, node.ints(*starts), node.ints(*ends), node.ints(*axes), node.ints(*steps)
    )
    node.moved(made, rep)


@lowers("Expand")
def expand(node: LoweredNode) -> None:
    value, rep = node.moving()
    node.moved(node.emit("Expand", value, node.ints(*node.outputs[0].shape)), rep)


@lowers("Tile")
def tile(node: LoweredNode) -> None:
    source, shape = node.view.tensor(0).shape, node.outputs[0].shape
    repeats = node.view.ints(1, "repeats") or [b // max(a, 1) for a, b in zip(source, shape)]
    value, rep = node.moving()
    node.moved(node.emit("Tile", value, node.ints(*repeats)), rep)


@lowers("Pad")
def pad(node: LoweredNode) -> None:
    source, target = node.view.tensor(0), node.outputs[0]
    pads = node.view.ints(1, "pads")
    if pads is None or len(pads) < 2 * len(source.shape):
        raise node.refuse(f"its pads {pads} do not fit rank {len(source.shape)}")
    mode = str(node.attrs.get("mode") or "constant")
    if mode == "wrap":
        _wrapped(node, pads)
        return
    fill: Any = node.view.constant(2).reshape(-1)[0] if node.has(2) else node.attrs.get("value", 0)
    value, rep = node.moving()
    width = node.ints(*pads)
    if mode != "constant":
        node.moved(node.emit("Pad", value, width, mode="reflect" if mode == "reflect" else "edge"), rep)
        return
    if rep in (Rep.CENTRED, Rep.ELEMENTS):
        assert target.quant is not None
        steps = np.rint(np.float32(fill) / np.float32(target.quant.scale))
        low, high = centred_range(target)
        filler = np.clip(steps, low, high) + (element_zero(target) if rep is Rep.ELEMENTS else 0)
        made = node.emit(
            "Pad", value, width, node.const(filler, np.uint8 if rep is Rep.ELEMENTS else np.float32)
        )
    else:
        made = node.emit("Pad", value, width, node.const(fill, node.typed(0)))
    node.moved(made, rep)


def _wrapped(node: LoweredNode, pads: list[int]) -> None:
    """What lies beyond an edge begins at the other one; ONNX has that since operator set 19."""
    value, rep = node.moving()
    shape = node.view.tensor(0).shape
    for axis, (size, before, after) in enumerate(zip(shape, pads, pads[len(shape) :])):
        if before or after:
            places = np.arange(-before, size + after) % size
            value = node.emit("Gather", value, node.const(places, np.int64), axis=axis)
    node.moved(value, rep)


@lowers("SpaceToDepth")
def space_to_depth(node: LoweredNode) -> None:
    value, rep = node.moving()
    node.moved(_reordered(node, value, *_to_depth(node)), rep)


def _to_depth(node: LoweredNode) -> tuple[list[int], list[int]]:
    n, c, h, w = node.view.tensor(0).shape
    block = int(node.attrs.get("blocksize", 1))
    return [n, c, h // block, block, w // block, block], [0, 3, 5, 1, 2, 4]


def _reordered(node: LoweredNode, value: str, cells: list[int], perm: list[int]) -> str:
    """Cut into cells, put in another order, and joined to the shape of the result."""
    turned = node.emit("Transpose", node.emit("Reshape", value, node.ints(*cells)), perm=perm)
    return node.emit("Reshape", turned, node.ints(*node.outputs[0].shape))


@lowers("DepthToSpace")
def depth_to_space(node: LoweredNode) -> None:
    n, c, h, w = node.view.tensor(0).shape
    block = int(node.attrs.get("blocksize", 1))
    if node.attrs.get("mode") == "CRD":
        cells, perm = [n, c // block**2, block, block, h, w], [0, 1, 4, 2, 5, 3]
    else:
        cells, perm = [n, block, block, c // block**2, h, w], [0, 3, 4, 1, 5, 2]
    value, rep = node.moving()
    node.moved(_reordered(node, value, cells, perm), rep)


@lowers("Trilu")
def trilu(node: LoweredNode) -> None:
    k = int(node.view.constant(1).reshape(-1)[0]) if node.has(1) else 0
    node.store(
        node.emit("Trilu", node.native(0), node.const(k, np.int64), upper=int(node.parameters["upper"]))
    )


@lowers("exWindow")
def window(node: LoweredNode) -> None:
    """Windows of a picture side by side, and back; see the CPU reference."""
    counts, sizes = (list(node.attrs.get(name) or []) for name in ("num_windows", "window_sizes"))
    mode, shape = node.attrs.get("mode"), node.view.tensor(0).shape
    if mode not in ("partition", "partition_num_first", "reverse") or len(counts) != 2 or len(sizes) != 2:
        raise node.refuse(f"mode {mode!r} of {counts} windows of {sizes}")
    order = [0, 1, 2, 4, 3, 5]
    if mode == "reverse":
        inner = [*counts, *sizes]
    elif mode == "partition":
        inner = [counts[0], sizes[0], counts[1], sizes[1]]
    else:
        inner, order = [sizes[0], counts[0], sizes[1], counts[1]], [0, 1, 3, 5, 2, 4]
    value, rep = node.moving()
    node.moved(_reordered(node, value, [*shape[:2], *inner], order), rep)


@lowers("exConvTransposePad")
def conv_transpose_pad(node: LoweredNode) -> None:
    """Zeros between the inputs and around them: first behind every row and column, then what is missing outside."""
    (n, c, h, w), shape = node.view.tensor(0).shape, node.outputs[0].shape
    strides, kernel = node.attrs.get("strides", [1, 1]), node.attrs.get("kernel_shape", [1, 1])
    dilations, pads = node.attrs.get("dilations", [1, 1]), node.attrs.get("pads", [0, 0, 0, 0])
    top, left = (dilations[i] * (kernel[i] - 1) - pads[i] for i in range(2))
    value, rep = node.moving()
    spread_h, spread_w = h * strides[0], w * strides[1]
    if (spread_h, spread_w) != (h, w):
        cells = node.emit("Reshape", value, node.ints(n, c, h, 1, w, 1))
        grown = zeros_around(
            node, cells, rep, [0] * 6, [0, 0, 0, int(strides[0]) - 1, 0, int(strides[1]) - 1]
        )
        value = node.emit("Reshape", grown, node.ints(n, c, spread_h, spread_w))
    after = [0, 0, shape[2] - top - spread_h, shape[3] - left - spread_w]
    node.moved(zeros_around(node, value, rep, [0, 0, top, left], after), rep)


def zeros_around(
    node: LoweredNode, value: str, rep: Optional[Rep], before: Sequence[int], after: Sequence[int]
) -> str:
    """Real zeros before and after every axis, in whatever form the values are; negative counts crop."""
    if not any((*before, *after)):
        return value
    zero = node.const(0, node.typed(0))
    if rep is Rep.ELEMENTS:
        zero = node.const(element_zero(node.view.tensor(0)), np.uint8)
    elif rep is Rep.CENTRED:
        zero = node.const(0.0)
    return node.emit("Pad", value, node.ints(*before, *after), zero)
