"""Operators of the vendor's list that few networks have, and patterns that the compiler may give a node of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from graph import Case, Net
from judge import Judge

__all__ = ["cases"]

_MAP = (1, 10, 9, 7)


def _one(kind: str, **attributes: Any) -> Callable[[Net], str]:
    return lambda n: n.op(kind, n.x(*_MAP), **attributes)


def _is_inf(n: Net) -> str:
    return n.op("Cast", n.op("IsInf", n.op("Log", n.x(*_MAP, low=0.0, high=2.0))), to=1)


def _constant_of_shape(n: Net) -> str:
    """Folded by the converter: zeros as large as the input, added to it."""
    x = n.x(*_MAP)
    return n.op("Add", x, n.op("ConstantOfShape", n.op("Shape", x)))


def _range(n: Net) -> str:
    """Positions of a transformer, computed from the shape."""
    x = n.x(1, 9, 20)
    size = n.op("Squeeze", n.op("Slice", n.op("Shape", x), n.ints(1), n.ints(2), n.ints(0)), n.ints(0))
    places = n.op("Cast", n.op("Range", n.const(0, "int64"), size, n.const(1, "int64")), to=1)
    return n.op("Mul", x, n.op("Unsqueeze", places, n.ints(0, 2)))


def _eye(n: Net) -> str:
    x = n.x(9, 9)
    return n.op("Sub", x, n.op("EyeLike", x))


def _size(n: Net) -> str:
    x = n.x(1, 9, 20)
    return n.op("Div", x, n.op("Cast", n.op("Size", x), to=1))


def _dropout(n: Net) -> str:
    return n.op("Relu", n.op("Dropout", n.conv(n.x(1, 3, 9, 7), 3, 10)))


def _identity(n: Net) -> str:
    return n.op("Identity", n.op("Identity", n.conv(n.x(1, 3, 9, 7), 3, 10)))


def _upsample(mode: str, *scales: float) -> Callable[[Net], str]:
    return lambda n: n.op("Upsample", n.x(1, 10, 5, 7), n.const([1.0, 1.0, *scales]), mode=mode)


def _cast_like(n: Net) -> str:
    x = n.x(*_MAP)
    return n.op("CastLike", n.op("Greater", x, n.const(0.2)), x)


def _crop(n: Net) -> str:
    return n.op("CenterCropPad", n.x(*_MAP), n.ints(4, 5), axes=[2, 3])


def _col2im(n: Net) -> str:
    """torch.nn.Fold: patches of 2 x 3 added up."""
    return n.op("Col2Im", n.x(1, 5 * 6, 4 * 3), n.ints(8, 9), n.ints(2, 3), strides=[2, 3])


def _compress(n: Net) -> str:
    return n.op("Compress", n.x(*_MAP), n.const([1, 0, 1, 1, 0, 0, 0, 1, 1, 0], "bool"), axis=1)


def _integers(kind: str) -> Callable[[Net], str]:
    """Integer products between QuantizeLinear and Cast, as dynamic quantisation leaves them."""

    def build(n: Net) -> str:
        steps = (n.const(0.03), n.const(0, "int8"))
        if kind == "MatMulInteger":
            x = n.op("QuantizeLinear", n.x(9, 20), *steps)
            y = n.op(kind, x, n.const(n.rng.integers(-100, 100, (20, 12)), "int8"))
        else:
            x = n.op("QuantizeLinear", n.x(1, 3, 9, 7), *steps)
            y = n.op(kind, x, n.const(n.rng.integers(-100, 100, (8, 3, 3, 3)), "int8"), pads=[1] * 4)
        return n.op("Mul", n.op("Cast", y, to=1), n.const(3e-4))

    return build


def _q_linear_conv(n: Net) -> str:
    """A network of ONNX's own quantised operators."""
    steps = (n.const(0.03), n.const(0, "int8"))
    x = n.op("QuantizeLinear", n.x(1, 3, 9, 7), *steps)
    weight = n.const(n.rng.integers(-127, 128, (8, 3, 3, 3)), "int8")
    y = n.op(
        "QLinearConv",
        x,
        *steps,
        weight,
        n.const(0.002),
        n.const(0, "int8"),
        n.const(0.05),
        n.const(2, "int8"),
        pads=[1] * 4,
    )
    return n.op("DequantizeLinear", y, n.const(0.05), n.const(2, "int8"))


def _dft(n: Net) -> str:
    return n.op("DFT", n.x(1, 12, 20, 1), axis=2)


def _det(n: Net) -> str:
    return n.op("Det", n.x(2, 5, 3, 3))


def _suppression(n: Net) -> str:
    boxes = n.op("Sigmoid", n.x(1, 30, 4))
    return n.op(
        "NonMaxSuppression",
        boxes,
        n.x(1, 3, 30, low=0.0, high=1.0),
        n.ints(5),
        n.const([0.5]),
        n.const([0.3]),
    )


def _non_zero(n: Net) -> str:
    return n.op("NonZero", n.op("Relu", n.x(*_MAP)))


def _glu(axis: int, *shape: int) -> Callable[[Net], str]:
    """Half times sigmoid of the other half: Conformer, gated convolutions."""

    def build(n: Net) -> str:
        x = n.x(*shape)
        a, b = n.ops("Split", 2, x, n.ints(*[shape[axis] // 2] * 2), axis=axis)
        return n.op("Mul", a, n.op("Sigmoid", b))

    return build


def _glu_conv(n: Net) -> str:
    y = n.conv(n.x(1, 12, 9, 7), 12, 20)
    a, b = n.ops("Split", 2, y, n.ints(10, 10), axis=1)
    return n.op("Mul", a, n.op("Sigmoid", b))


def _swiglu(n: Net) -> str:
    x = n.x(1, 9, 20)
    gate, value = (n.op("MatMul", x, n.weight(20, 36)) for _ in range(2))
    return n.op("MatMul", n.op("Mul", n.op("Mul", gate, n.op("Sigmoid", gate)), value), n.weight(36, 20))


def _instance_norm1d(n: Net) -> str:
    return n.op("InstanceNormalization", n.x(1, 10, 30), n.const(n.rng.uniform(0.5, 1.5, 10)), n.weight(10))


def _unshuffle(n: Net) -> str:
    """torch.nn.PixelUnshuffle through six dimensions."""
    y = n.op("Reshape", n.x(1, 3, 8, 6), n.ints(1, 3, 4, 2, 3, 2))
    return n.op("Reshape", n.op("Transpose", y, perm=[0, 1, 3, 5, 2, 4]), n.ints(1, 12, 4, 3))


def _resize1d(n: Net) -> str:
    return n.op("Resize", n.x(1, 10, 9), "", n.const([1.0, 1.0, 2.0]), mode="nearest",
                coordinate_transformation_mode="asymmetric", nearest_mode="floor")  # fmt: skip


def _top_k_smallest(n: Net) -> list[str]:
    return n.ops("TopK", 2, n.x(1, 9, 20), n.ints(4), axis=2, largest=0)


def _gather_negative(n: Net) -> str:
    return n.op("Gather", n.x(1, 9, 20), n.const([-1, 0, -4], "int64"), axis=2)


def _clip_computed(n: Net) -> str:
    """A mel spectrogram's floor: nothing below the maximum less 8."""
    x = n.x(1, 1, 12, 15)
    top = n.op("Squeeze", n.op("ReduceMax", x, keepdims=1), n.ints(0, 1, 2, 3))
    return n.op("Clip", x, n.op("Sub", top, n.const(2.5)))


def _roll(n: Net) -> str:
    x = n.x(*_MAP)
    parts = [n.op("Slice", x, n.ints(a), n.ints(b), n.ints(2), n.ints(1)) for a, b in ((3, 9), (0, 3))]
    return n.op("Concat", *parts, axis=2)


def _relative_positions(n: Net) -> str:
    """The bias of window attention, gathered from a table."""
    index = np.arange(9)[:, None] - np.arange(9) + 8
    table = n.op("Gather", n.weight(17, 4), n.const(index, "int64"), axis=0)
    return n.op(
        "Add", n.x(1, 4, 9, 9), n.op("Unsqueeze", n.op("Transpose", table, perm=[2, 0, 1]), n.ints(0))
    )


def _correlated(function: Callable[[Net, str], str]) -> Callable[[Net], str]:
    """One picture over another, with a bias, and a function that the compiler joins to it."""

    def build(n: Net) -> str:
        search, template = n.conv(n.x(1, 3, 9, 10), 3, 8), n.conv(n.x(5, 3, 3, 3), 3, 8, 1)
        return function(n, n.op("Conv", search, template, n.weight(5), kernel_shape=[3, 3], pads=[0] * 4))

    return build


def _two_functions(
    first: Callable[[Net, str], str], second: Callable[[Net, str], str]
) -> Callable[[Net], str]:
    """Of one type with two parameters: the converter gives both the table of the first."""
    return lambda n: second(n, n.conv(first(n, n.conv(n.x(*_MAP), 10, 16)), 16, 16))


def _silu(beta: float) -> Callable[[Net, str], str]:
    return lambda n, x: n.op("Mul", x, n.op("Sigmoid", n.op("Mul", x, n.const(beta)) if beta != 1 else x))


def cases() -> Iterator[Case]:
    """All cases of this family."""
    yield Case("is_inf", _is_inf)
    yield Case("constant_of_shape", _constant_of_shape)
    yield Case("range", _range)
    yield Case("eye_like", _eye)
    yield Case("size", _size)
    yield Case("dropout", _dropout)
    yield Case("identity", _identity)
    yield Case("upsample_nearest", _upsample("nearest", 2.0, 3.0), 9)
    yield Case("upsample_linear", _upsample("linear", 2.0, 2.0), 9)
    yield Case("cast_like", _cast_like, 15)
    yield Case("center_crop_pad", _crop, 18)
    yield Case("col2im", _col2im, 18)
    yield Case("compress", _compress)
    yield Case("matmul_integer", _integers("MatMulInteger"))
    yield Case("conv_integer", _integers("ConvInteger"))
    yield Case("q_linear_conv", _q_linear_conv)
    yield Case("dft", _dft, 17)
    yield Case("det", _det)
    yield Case("non_max_suppression", _suppression, 13, Judge.STEPS)
    yield Case("non_zero", _non_zero, 13, Judge.STEPS)
    yield Case("glu_channels", _glu(1, *_MAP))
    yield Case("glu_last", _glu(2, 1, 9, 20))
    yield Case("glu_after_conv", _glu_conv, 13, Judge.FUSED)
    yield Case("swiglu", _swiglu, 13, Judge.FUSED)
    yield Case("instance_norm_1d", _instance_norm1d, 13, Judge.FUSED)
    yield Case("pixel_unshuffle", _unshuffle)
    yield Case("resize_1d", _resize1d)
    yield Case("top_k_smallest", _top_k_smallest)
    yield Case("gather_negative", _gather_negative)
    yield Case("clip_computed", _clip_computed)
    yield Case("roll", _roll)
    yield Case("relative_positions", _relative_positions)
    yield Case("gelu_tanh", _one("Gelu", approximate="tanh"), 20)
    yield Case("sum_square_all", lambda n: n.op("ReduceSumSquare", n.x(*_MAP), keepdims=1))
    yield Case("correlation_bias_relu", _correlated(lambda n, x: n.op("Relu", x)), 13, Judge.FUSED)
    yield Case(
        "correlation_bias_prelu",
        _correlated(lambda n, x: n.op("PRelu", x, n.weight(5, 1, 1))),
        13,
        Judge.FUSED,
    )
    yield Case("silu_after_quick_gelu", _two_functions(_silu(1.702), _silu(1)), 13, Judge.FUSED)
    yield Case("quick_gelu_after_silu", _two_functions(_silu(1), _silu(1.702)), 13, Judge.FUSED)
    elu = [lambda n, x, alpha=alpha: n.op("Elu", x, alpha=alpha) for alpha in (0.3, 1.0)]
    yield Case("elu_after_another", _two_functions(elu[0], elu[1]), 13, Judge.FUSED)
