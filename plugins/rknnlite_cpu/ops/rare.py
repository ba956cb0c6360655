"""Operators that few networks have; the converter leaves them as ONNX says, on the CPU. And the gate of Conformers."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from rknnlite_graph.node_view import NodeView
from rknnlite_graph.unary_functions import sigmoid

from ..registry import centred_kernel, check_operands, move_op, op, real_kernel, real_op
from ..values import Array, Kernel, centred_range

__all__: list[str] = []


def _halved_axis(view: NodeView) -> int:
    """The axis that shrinks to a half."""
    source, target = view.tensor(0).shape, view.outputs[0].shape
    shrunk = [i for i, (before, after) in enumerate(zip(source, target)) if before != after]
    if len(shrunk) != 1 or source[shrunk[0]] != 2 * target[shrunk[0]] or len(source) != len(target):
        raise view.fail(f"{list(target)} is no half of {list(source)}")
    return shrunk[0]


@op("exGlu")
def gated(view: NodeView) -> Kernel:
    """One half times the sigmoid of the other; the axis is the one that shrinks."""
    check_operands(view, 1)
    axis, source = _halved_axis(view), view.tensor(0)
    if not source.in_eight_bits or source.quant is None:
        return real_kernel(view, lambda _, x: np.multiply(*_value_and_gate(x, axis, sigmoid)))
    from rknnlite_graph.byte_tables import gate

    table, low, scale = gate(source), centred_range(source)[0], np.float32(source.quant.scale)

    def run(_: NodeView, x: Array) -> Array:
        value, gates = _value_and_gate(x, axis, lambda part: table.take((part - low).astype(np.intp)))
        return value * scale * gates

    return centred_kernel(view, run)


def _value_and_gate(x: Array, axis: int, function: Callable[[Array], Array]) -> tuple[Array, Array]:
    value, gates = np.split(x, 2, axis=axis)
    return value, function(gates)


@real_op("IsInf")
def is_inf(view: NodeView, x: Array) -> Array:
    detects = view.parameters
    above = np.isposinf(x) if detects["detect_positive"] else np.zeros(x.shape, bool)
    return above | np.isneginf(x) if detects["detect_negative"] else above


@real_op("EyeLike")
def eye_like(view: NodeView, x: Array) -> Array:
    return np.eye(*x.shape, int(view.parameters["k"]), dtype=np.float32)


@real_op("CastLike")
def cast_like(view: NodeView, x: Array, like: Array | None = None) -> Array:
    """Rounding is the matter of the output tensor, which has the type of the other operand."""
    return x


@move_op("CenterCropPad")
def center_crop_pad(view: NodeView) -> object:
    """Cut or pad with zeros on both sides; of an odd number the larger part is behind."""
    source, target = view.tensor(0).shape, view.outputs[0].shape
    if len(source) != len(target):
        raise view.fail(f"{list(source)} and {list(target)} are not of one rank")
    cut = tuple(slice(max(0, (a - b) // 2), max(0, (a - b) // 2) + min(a, b)) for a, b in zip(source, target))
    place = tuple(
        slice(max(0, (b - a) // 2), max(0, (b - a) // 2) + min(a, b)) for a, b in zip(source, target)
    )

    def run(x: Array) -> Array:
        out = np.zeros(target, x.dtype)
        out[place] = x[cut]
        return out

    return run


def _patches(view: NodeView, image: Array, block: Array) -> tuple[int, int]:
    """Rows and columns of patches; refused where the operand has others."""
    (height, width), (tall, wide) = (int(v) for v in image), (int(v) for v in block)
    (sy, sx), (dy, dx) = view.attrs.get("strides", [1, 1]), view.attrs.get("dilations", [1, 1])
    top, left, bottom, right = view.attrs.get("pads", [0, 0, 0, 0])
    source, target = view.tensor(0).shape, view.outputs[0].shape
    rows = (height + top + bottom - dy * (tall - 1) - 1) // sy + 1
    columns = (width + left + right - dx * (wide - 1) - 1) // sx + 1
    patches = (target[0], target[1] * tall * wide, rows * columns)
    if min(sy, sx, dy, dx) < 1 or source != patches or target[2:] != (height, width):
        raise view.fail(
            f"{list(source)} are no patches of {tall} x {wide} in a picture of {height} x {width}"
        )
    return rows, columns


def _check_patches(view: NodeView) -> None:
    if view.is_const(1) and view.is_const(2):
        _patches(view, view.constant(1), view.constant(2))


@real_op("Col2Im", check=_check_patches)
def col2im(view: NodeView, x: Array, image: Array, block: Array) -> Array:
    """Patches, one per column, added up where they overlap."""
    rows, columns = _patches(view, image, block)
    (height, width), (tall, wide) = (int(v) for v in image), (int(v) for v in block)
    (sy, sx), (dy, dx) = view.attrs.get("strides", [1, 1]), view.attrs.get("dilations", [1, 1])
    top, left, bottom, right = view.attrs.get("pads", [0, 0, 0, 0])
    n, channels = view.outputs[0].shape[:2]
    patches = x.reshape(n, channels, tall, wide, rows, columns)
    out = np.zeros((n, channels, height + top + bottom, width + left + right), np.float32)
    for i, j in np.ndindex(tall, wide):
        down, across = (
            slice(i * dy, i * dy + (rows - 1) * sy + 1, sy),
            slice(j * dx, j * dx + (columns - 1) * sx + 1, sx),
        )
        out[:, :, down, across] += patches[:, :, i, j]
    return out[:, :, top : top + height, left : left + width]


def _check_kept(view: NodeView) -> None:
    """As many elements are kept as the result has, where the file says which."""
    if view.is_const(1):
        axis = view.attrs.get("axis")
        like = np.broadcast_to(np.float32(0), view.tensor(0).shape)
        kept = np.count_nonzero(view.constant(1))
        found = kept if axis is None else like.size // max(like.shape[int(axis)], 1) * kept
        most = like.size if axis is None else like.shape[int(axis)]
        if view.constant(1).size > most or found != math.prod(view.outputs[0].shape):
            raise view.fail(f"{kept} of {most} elements kept do not give {list(view.outputs[0].shape)}")


@real_op("Compress", check=_check_kept)
def compress(view: NodeView, x: Array, condition: Array) -> Array:
    axis = view.attrs.get("axis")
    return np.compress(condition.reshape(-1) != 0, x, axis=None if axis is None else int(axis))


def _check_numbers(view: NodeView) -> None:
    """A result of two reals for each point; their number along the axis may be an operand."""
    shape, target = view.tensor(0).shape, view.outputs[0].shape
    axis = int(view.parameters["axis"])
    axis = axis % len(shape) if axis < 0 else axis
    if not 0 <= axis < len(shape) - 1:
        raise view.fail(f"axis {axis} of {list(shape)}")
    count = shape[axis]
    if view.has(1):
        if not view.is_const(1):
            return
        count = int(view.constant(1).reshape(-1)[0])
    count = count // 2 + 1 if view.parameters["onesided"] else count
    if math.prod((*shape[:axis], count, *shape[axis + 1 : -1], 2)) != math.prod(target):
        raise view.fail(f"{count} points of {list(shape)} along axis {axis} do not give {list(target)}")


@real_op("DFT", check=_check_numbers)
def dft(view: NodeView, x: Array, length: Array | None = None) -> Array:
    """Real or complex (the last dimension has 1 or 2 elements), forward or inverse, whole or half."""
    axis = int(view.parameters["axis"])
    axis = axis % x.ndim if axis < 0 else axis
    if x.ndim < 2 or not 0 <= axis < x.ndim - 1 or x.shape[-1] not in (1, 2):
        raise view.fail(f"axis {axis} of {list(x.shape)}")
    numbers = x[..., 0] + 1j * x[..., 1] if x.shape[-1] == 2 else x[..., 0]
    count = None if length is None else int(length.reshape(-1)[0])
    if count is not None and not 0 < count <= max(1, view.outputs[0].shape[axis]) * 2:
        raise view.fail(f"{count} points for an output of {list(view.outputs[0].shape)}")
    found = (
        np.fft.ifft(numbers, count, axis) if view.parameters["inverse"] else np.fft.fft(numbers, count, axis)
    )
    if view.parameters["onesided"]:
        found = np.take(found, range(found.shape[axis] // 2 + 1), axis=axis)
    return np.stack([found.real, found.imag], axis=-1).astype(np.float32)


@real_op("Det")
def det(view: NodeView, x: Array) -> Array:
    return np.asarray(np.linalg.det(x))


_MOST_WORK = 10_000
"""Products per element of operands and result: matrices of 4096 squared need 1,400."""


@op("Einsum")
def einsum(view: NodeView) -> Kernel:
    """Sums of products by equation, as numpy writes them; checked when the node is prepared."""
    equation = str(view.attrs.get("equation", "")).replace(" ", "")
    operands, _, result = equation.partition("->")
    terms, tensors = operands.split(","), [tensor for tensor in view.inputs if tensor is not None]
    if len(terms) != len(tensors) or not tensors:
        raise view.fail(f"equation {equation!r} for {len(tensors)} operands")
    sizes: dict[str, int] = {}
    for term, tensor in zip(terms, tensors):
        for label, size in zip(_labels(term, len(tensor.shape)), tensor.shape):
            if sizes.setdefault(label, size) not in (size, 1) and size != 1:
                raise view.fail(f"equation {equation!r}: {label} is {sizes[label]} and {size}")
            sizes[label] = max(size, sizes[label])
    target = view.outputs[0].shape
    elements = sum(math.prod(tensor.shape) for tensor in (*tensors, view.outputs[0]))
    fits = set(result) <= {*sizes, "."} and (
        not result.isalpha() or target == tuple(sizes[i] for i in result)
    )
    if not fits or math.prod(sizes.values()) > _MOST_WORK * max(1, elements):
        raise view.fail(
            f"equation {equation!r} does not make {list(target)} of {[list(tensor.shape) for tensor in tensors]}"
        )
    return real_kernel(view, lambda _, *values: np.einsum(equation, *values, optimize=len(values) > 1))


def _labels(term: str, rank: int) -> list[str]:
    """One label per dimension; those under an ellipsis are counted from the last."""
    before, dots, after = term.partition("...")
    hidden = rank - len(before) - len(after)
    if hidden < 0 or (hidden and not dots) or not (before + "a" + after).isalpha():
        raise ValueError(f"{term!r} for rank {rank}")
    return [*before, *(f"{i}" for i in range(hidden, 0, -1)), *after]
