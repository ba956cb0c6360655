"""Operators that few networks have, and the gate of Conformers."""

from __future__ import annotations

import numpy as np
from rknnlite_graph.byte_tables import gate

from rknnlite.quant import RANGES

from ..lowered_values import centred_range
from ..registry import LoweredNode, lowers
from .move import zeros_around

__all__: list[str] = []


@lowers("exGlu", precise=True)
def gated(node: LoweredNode) -> None:
    """One half times the sigmoid of the other; the axis is the one that shrinks."""
    source, target = node.view.tensor(0).shape, node.outputs[0].shape
    shrunk = [i for i, (before, after) in enumerate(zip(source, target)) if before != after]
    if len(shrunk) != 1 or len(source) != len(target):
        raise node.refuse(f"{list(target)} is no half of {list(source)}")
    size = target[shrunk[0]]
    if node.precise and node.small(0):
        value, part = node.emitter.nodes("Split", [node.whole(0), node.ints(size, size)], 2, axis=shrunk[0])
        low = node.const(centred_range(node.view.tensor(0))[0])
        places = node.emitter.cast(node.emit("Sub", part, low), np.int32)
        real = node.emit("Mul", value, node.const(node.step(0)))
        node.store(node.emit("Mul", real, node.looked_up(gate(node.view.tensor(0)), places, target)))
        return
    if node.precise:
        raise node.refuse("a sigmoid of floats behind 8 bits")
    halves = node.emitter.nodes("Split", [node.real(0), node.ints(size, size)], 2, axis=shrunk[0])
    node.store(node.emit("Mul", halves[0], node.emit("Sigmoid", halves[1])))


@lowers("EyeLike")
def eye_like(node: LoweredNode) -> None:
    rows, columns = node.view.tensor(0).shape
    node.store(node.const(np.eye(rows, columns, int(node.parameters["k"]))))


@lowers("CenterCropPad")
def center_crop_pad(node: LoweredNode) -> None:
    """Cut or pad with zeros on both sides; of an odd number the larger part is behind."""
    source, target = node.view.tensor(0).shape, node.outputs[0].shape
    if len(source) != len(target):
        raise node.refuse(f"{list(source)} and {list(target)} are not of one rank")
    value, rep = node.moving()
    cut = [max(0, (a - b) // 2) for a, b in zip(source, target)]
    ends = [start + min(a, b) for start, a, b in zip(cut, source, target)]
    if any(a > b for a, b in zip(source, target)):
        value = node.emit("Slice", value, node.ints(*cut), node.ints(*ends))
    before = [max(0, (b - a) // 2) for a, b in zip(source, target)]
    after = [max(0, b - a) - start for start, a, b in zip(before, source, target)]
    padded = zeros_around(node, value, rep, before, after)
    node.moved(padded if padded != value or source != target else node.emit("Identity", value), rep)


@lowers("Compress")
def compress(node: LoweredNode) -> None:
    axis = node.attrs.get("axis")
    if node.view.is_const(1):
        flags = node.const(node.view.constant(1).reshape(-1) != 0, bool)
    else:
        flags = node.emit("Reshape", node.emitter.cast(node.native(1), bool), node.ints(-1))
    value, rep = node.moving()
    node.moved(node.emit("Compress", value, flags, axis=None if axis is None else int(axis)), rep)


@lowers("DFT")
def dft(node: LoweredNode) -> None:
    """Real or complex (the last dimension has 1 or 2 elements), forward or inverse; in double, like the CPU reference.

    Of the whole the half is cut out: that is right for complex numbers, too.
    """
    shape, target = node.view.tensor(0).shape, node.outputs[0].shape
    axis = int(node.parameters["axis"]) % len(shape)
    names = [node.emitter.cast(node.real(0), np.float64)]
    if node.has(1):
        if not node.view.is_const(1):
            raise node.refuse("a length that the network computes")
        names.append(node.const(int(node.view.constant(1).reshape(-1)[0]), np.int64))
    found = node.emit("DFT", *names, axis=axis, inverse=int(bool(node.parameters["inverse"])))
    if node.parameters["onesided"]:
        found = node.emit("Slice", found, node.ints(0), node.ints(target[axis]), node.ints(axis))
    node.store(node.emitter.cast(found, np.float32))


@lowers("Det")
def det(node: LoweredNode) -> None:
    node.store(node.emit("Det", node.real(0)))


@lowers("Einsum")
def einsum(node: LoweredNode) -> None:
    positions = range(len(node.view.inputs))
    kinds = [node.typed(i) for i in positions]
    names = [node.real(i) for i in positions]
    if all(kind.kind in "iu" for kind in kinds):
        wide = np.result_type(*kinds)
        names = [node.emitter.cast(node.native(i), wide) for i in positions]
    equation = str(node.attrs.get("equation", "")).replace(" ", "")
    node.store(node.emit("Einsum", *names, equation=equation))


@lowers("Mod")
def mod(node: LoweredNode) -> None:
    """As numpy has it: of integers by 0 it is 0; of reals ONNX has the remainder with the sign of the dividend only."""
    if all(node.typed(i).kind in "iu" for i in (0, 1)):
        kind = np.result_type(node.typed(0), node.typed(1))
        a, b = (node.emitter.cast(node.native(i), kind) for i in (0, 1))
        divisor = node.emit("Where", node.emit("Equal", b, node.const(0, kind)), node.const(1, kind), b)
        node.store(node.emit("Mod", a, divisor, fmod=int(bool(node.parameters["fmod"]))))
        return
    a, b, zero = node.real(0), node.real(1), node.const(0.0)
    rest = node.emit("Mod", a, b, fmod=1)
    if not node.parameters["fmod"]:
        other_sign = node.emit("Xor", node.emit("Less", rest, zero), node.emit("Less", b, zero))
        some = node.emit("Not", node.emit("Equal", rest, zero))
        rest = node.emit("Where", node.emit("And", some, other_sign), node.emit("Add", rest, b), rest)
    node.store(rest, nan=True)


@lowers("QuantizeLinear")
def quantize_linear(node: LoweredNode) -> None:
    """Its tensor has the steps, or its operands do."""
    target = node.outputs[0]
    if target.quant is not None:
        node.store(node.real(0))
        return
    low, high = RANGES.get(target.dtype, (-(2**31), 2**31 - 1))
    steps = node.emit("Round", node.emit("Div", node.real(0), _per_axis(node, 1)))
    whole = node.emit("Clip", node.emit("Add", steps, _per_axis(node, 2)), node.const(low), node.const(high))
    node.store_cut_off(whole)


@lowers("DequantizeLinear")
def dequantize_linear(node: LoweredNode) -> None:
    """Of a tensor that has its steps nothing is left to do."""
    if node.view.tensor(0).quant is not None:
        node.store(node.real(0))
        return
    centred = node.emit("Sub", node.real(0), _per_axis(node, 2))
    node.store(node.emit("Mul", centred, _per_axis(node, 1)))


def _per_axis(node: LoweredNode, position: int) -> str:
    """One parameter, or one per element of ``axis``, laid along it."""
    if not node.has(position):
        return node.const(0.0)
    if not node.view.is_const(position):
        raise node.refuse("steps that the network computes")
    parameter, rank = node.constant(position), len(node.view.tensor(0).shape)
    if parameter.size == 1:
        return node.const(parameter.reshape(-1)[0])
    axis = int(node.parameters["axis"]) % rank
    return node.const(parameter.reshape([-1 if i == axis else 1 for i in range(rank)]))
