"""Operators that only move elements: ONNX semantics on logical shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from rknnlite_graph.node_view import NodeView

from ..registry import move_op, op
from ..values import Array, Kernel, decode, encode

__all__: list[str] = []

Mover = Callable[[Array], Any]


def _axis(view: NodeView, rank: int, default: int = 0) -> int:
    axis = view.attrs.get("axis", default)
    if not isinstance(axis, int) or not -rank <= axis < rank:
        raise view.fail(f"axis {axis!r} of a rank {rank} tensor")
    return axis % rank


@move_op("Reshape", "Flatten", "Squeeze", "Unsqueeze")
def reshape(view: NodeView) -> Mover:
    shape, source = view.outputs[0].shape, view.tensor(0).shape
    if np.prod(shape) != np.prod(source):
        raise view.fail(f"cannot reshape {list(source)} to {list(shape)}")
    return lambda x: x.reshape(shape)


@op("Identity")
def identity(view: NodeView) -> Kernel:
    """Hands its input on; a floating graph input stays unrounded."""
    return lambda values: [values[0]]


@move_op("Transpose")
def transpose(view: NodeView) -> Mover:
    rank = len(view.tensor(0).shape)
    perm = view.attrs.get("perm") or list(range(rank))[::-1]
    if sorted(perm) != list(range(rank)):
        raise view.fail(f"perm {perm} of a rank {rank} tensor")
    return lambda x: np.ascontiguousarray(x.transpose(perm))


@op("Concat")
def concat(view: NodeView) -> Kernel:
    """Inputs are requantised to the output's scale."""
    target = view.outputs[0]
    axis = _axis(view, len(target.shape))
    sources = [tensor for tensor in view.inputs if tensor is not None]
    fixed = {i: encode(view.constant(i), target) for i in range(len(view.inputs)) if view.is_const(i)}
    same = [t.quant == target.quant and t.dtype is target.dtype for t in sources]

    def run(values: list[Array]) -> list[Array]:
        queue = iter(values)
        parts = []
        for i, tensor in enumerate(sources):
            if i in fixed:
                parts.append(fixed[i])
                continue
            value = next(queue)
            parts.append(value if same[i] else encode(decode(value, tensor), target))
        return [np.concatenate(parts, axis=axis)]

    return run


@move_op("Split")
def split(view: NodeView) -> Mover:
    axis = _axis(view, len(view.tensor(0).shape))
    sizes = [tensor.shape[axis] for tensor in view.outputs]
    if sum(sizes) != view.tensor(0).shape[axis]:
        raise view.fail(f"cannot split {view.tensor(0).shape[axis]} elements into {sizes}")
    cuts = np.cumsum(sizes)[:-1].tolist()
    return lambda x: [np.ascontiguousarray(part) for part in np.split(x, cuts, axis=axis)]


@move_op("Slice")
def slice_(view: NodeView) -> Mover:
    source, target = view.tensor(0).shape, view.outputs[0].shape
    starts, ends = view.ints(1, "starts"), view.ints(2, "ends")
    if starts is None or ends is None:
        raise view.fail("its starts and ends are not stored as constants")
    axes = view.ints(3, "axes") or list(range(len(starts)))
    steps = view.ints(4, "steps") or [1] * len(starts)
    index: list[Any] = [slice(None)] * len(source)
    for start, end, axis, step in zip(starts, ends, axes, steps):
        if not -len(source) <= axis < len(source) or step == 0:
            raise view.fail(f"axis {axis}, step {step} of a rank {len(source)} tensor")
        size = source[axis]
        if step < 0 and end < -size:
            index[axis] = slice(min(start, size - 1), None, step)
        else:
            index[axis] = slice(start, end, step)
    found = tuple(len(range(*i.indices(n))) for i, n in zip(index, source))
    if found != target:
        raise view.fail(f"slices to {list(found)}, but its output is {list(target)}")
    place = tuple(index)
    return lambda x: np.ascontiguousarray(x[place])


@move_op("Expand")
def expand(view: NodeView) -> Mover:
    shape = view.outputs[0].shape
    np.broadcast_shapes(view.tensor(0).shape, shape)
    return lambda x: np.ascontiguousarray(np.broadcast_to(x, shape))


@move_op("Tile")
def tile(view: NodeView) -> Mover:
    shape, source = view.outputs[0].shape, view.tensor(0).shape
    repeats = view.ints(1, "repeats") or [b // max(a, 1) for a, b in zip(source, shape)]
    if tuple(a * r for a, r in zip(source, repeats)) != shape:
        raise view.fail(f"tiling {list(source)} by {repeats} does not give {list(shape)}")
    return lambda x: np.tile(x, repeats)


@op("Pad")
def pad(view: NodeView) -> Kernel:
    """Modes constant (value operand), reflect, edge, wrap; negative pads crop."""
    source, target = view.tensor(0), view.outputs[0]
    rank = len(source.shape)
    mode = view.choice("mode", "constant", "reflect", "edge", "wrap")
    pads = view.ints(1, "pads")
    if pads is None or len(pads) < 2 * rank:
        raise view.fail(f"its pads {pads} do not fit rank {rank}")
    width = list(zip(pads[:rank], pads[rank : 2 * rank]))
    if tuple(n + a + b for n, (a, b) in zip(source.shape, width)) != target.shape:
        raise view.fail(f"pads {pads} do not turn {list(source.shape)} into {list(target.shape)}")
    fill: Any = view.constant(2).reshape(-1)[0] if view.has(2) else view.attrs.get("value", 0)
    crop = tuple(slice(max(0, -a), n - max(0, -b)) for n, (a, b) in zip(source.shape, width))
    grow = [(max(0, a), max(0, b)) for a, b in width]
    same = source.quant == target.quant and source.dtype is target.dtype
    filler = encode(np.asarray(fill, np.float32), target) if target.dtype.is_float or target.quant else fill

    def run(values: list[Array]) -> list[Array]:
        x = values[0] if same else encode(decode(values[0], source), target)
        if mode == "constant":
            return [np.pad(x[crop], grow, constant_values=filler)]
        return [np.pad(x[crop], grow, mode=mode)]  # type: ignore[call-overload]

    return run


@move_op("SpaceToDepth")
def space_to_depth(view: NodeView) -> Mover:
    n, c, h, w = view.tensor(0).shape
    block = int(view.attrs.get("blocksize", 1))
    shape = view.outputs[0].shape

    def run(x: Array) -> Array:
        cells = x.reshape(n, c, h // block, block, w // block, block)
        return np.ascontiguousarray(cells.transpose(0, 3, 5, 1, 2, 4)).reshape(shape)

    return run


@move_op("DepthToSpace")
def depth_to_space(view: NodeView) -> Mover:
    n, c, h, w = view.tensor(0).shape
    block = int(view.attrs.get("blocksize", 1))
    shape, crd = view.outputs[0].shape, view.choice("mode", "DCR", "CRD") == "CRD"

    def run(x: Array) -> Array:
        if crd:
            cells = x.reshape(n, c // block**2, block, block, h, w).transpose(0, 1, 4, 2, 5, 3)
        else:
            cells = x.reshape(n, block, block, c // block**2, h, w).transpose(0, 3, 4, 1, 5, 2)
        return np.ascontiguousarray(cells).reshape(shape)

    return run


@move_op("exConvTransposePad")
def conv_transpose_pad(view: NodeView) -> Mover:
    """Zeros between the inputs and around them; a stride-1 convolution follows."""
    strides, kernel = view.attrs.get("strides", [1, 1]), view.attrs.get("kernel_shape", [1, 1])
    dilations, pads = view.attrs.get("dilations", [1, 1]), view.attrs.get("pads", [0, 0, 0, 0])
    shape = view.outputs[0].shape
    top, left = (dilations[i] * (kernel[i] - 1) - pads[i] for i in range(2))

    def run(x: Array) -> Array:
        out = np.zeros(shape, x.dtype)
        spread_h, spread_w = (x.shape[2] - 1) * strides[0] + 1, (x.shape[3] - 1) * strides[1] + 1
        out[:, :, top : top + spread_h : strides[0], left : left + spread_w : strides[1]] = x
        return out

    return run


@move_op("Trilu")
def trilu(view: NodeView) -> Mover:
    k = int(view.constant(1).reshape(-1)[0]) if view.has(1) else 0
    upper = view.parameters["upper"]
    return lambda x: np.triu(x, k) if upper else np.tril(x, k)


@move_op("exWindow")
def window(view: NodeView) -> Mover:
    """Windows of a picture side by side, and back: [N, C, H, W] <-> [N, C, windows, elements of a window].

    With ``partition_num_first`` a window is every second, third, ... row and column, not a part of the picture.
    """
    counts, sizes = (list(view.attrs.get(name) or []) for name in ("num_windows", "window_sizes"))
    source, target, mode = view.tensor(0).shape, view.outputs[0].shape, view.attrs.get("mode")
    if mode not in ("partition", "partition_num_first", "reverse"):
        raise view.fail(f"mode {mode!r}; known are partition, partition_num_first and reverse")
    if len(counts) != 2 or len(sizes) != 2:
        raise view.fail(f"num_windows {counts} and window_sizes {sizes} are not two numbers each")
    whole, cut = (counts[0] * sizes[0], counts[1] * sizes[1]), (counts[0] * counts[1], sizes[0] * sizes[1])
    before, after = (cut, whole) if mode == "reverse" else (whole, cut)
    if len(source) != 4 or source[2:] != before or target != (*source[:2], *after):
        raise view.fail(
            f"{mode} of {counts} windows of {sizes} does not turn {list(source)} into {list(target)}"
        )
    order = (0, 1, 2, 4, 3, 5)
    if mode == "reverse":
        inner = (*counts, *sizes)
    elif mode == "partition":
        inner = (counts[0], sizes[0], counts[1], sizes[1])
    else:
        inner, order = (sizes[0], counts[0], sizes[1], counts[1]), (0, 1, 3, 5, 2, 4)
    return lambda x: np.ascontiguousarray(x.reshape(*source[:2], *inner).transpose(order)).reshape(target)
