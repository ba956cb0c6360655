"""Convolutions: geometries, fused activations, residual patterns, fully connected layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from graph import Case, Net
from judge import Judge

__all__ = ["cases"]

Activation = Callable[[Net, str], str]


def _plain(kind: str, **attributes: Any) -> Activation:
    return lambda n, x: n.op(kind, x, **attributes)


def _clip(low: float, high: float) -> Activation:
    return lambda n, x: n.op("Clip", x, n.const(low), n.const(high))


def _silu(beta: float = 1.0) -> Activation:
    def run(n: Net, x: str) -> str:
        inner = x if beta == 1 else n.op("Mul", x, n.const(beta))
        return n.op("Mul", x, n.op("Sigmoid", inner))

    return run


def _gelu(n: Net, x: str) -> str:
    erf = n.op("Erf", n.op("Div", x, n.const(2**0.5)))
    return n.op("Mul", n.op("Mul", x, n.op("Add", erf, n.const(1.0))), n.const(0.5))


def _gelu_tanh(n: Net, x: str) -> str:
    cube = n.op("Mul", n.op("Pow", x, n.const(3.0)), n.const(0.044715))
    inner = n.op("Mul", n.op("Add", x, cube), n.const(0.7978845608))
    return n.op("Mul", n.op("Mul", x, n.op("Add", n.op("Tanh", inner), n.const(1.0))), n.const(0.5))


def _mish(n: Net, x: str) -> str:
    return n.op("Mul", x, n.op("Tanh", n.op("Softplus", x)))


def _hardswish(n: Net, x: str) -> str:
    return n.op("Mul", x, n.op("HardSigmoid", x, alpha=1 / 6, beta=0.5))


def _prelu(n: Net, x: str) -> str:
    return n.op("PRelu", x, n.const(n.rng.uniform(0.05, 0.4, (16, 1, 1))))


ACTIVATIONS: dict[str, tuple[Activation, int]] = {
    "relu": (_plain("Relu"), 13),
    "relu6": (_clip(0.0, 6.0), 13),
    "clip": (_clip(-0.5, 0.75), 13),
    "leaky": (_plain("LeakyRelu", alpha=0.1), 13),
    "prelu": (_prelu, 13),
    "sigmoid": (_plain("Sigmoid"), 13),
    "tanh": (_plain("Tanh"), 13),
    "elu": (_plain("Elu"), 13),
    "elu_half": (_plain("Elu", alpha=0.5), 13),
    "silu": (_silu(), 13),
    "quick_gelu": (_silu(1.702), 13),
    "gelu": (_gelu, 13),
    "gelu_tanh": (_gelu_tanh, 13),
    "mish": (_mish, 13),
    "mish18": (_plain("Mish"), 18),
    "softplus": (_plain("Softplus"), 13),
    "hardswish": (_hardswish, 13),
    "hardswish14": (_plain("HardSwish"), 14),
    "hardsigmoid": (_plain("HardSigmoid", alpha=1 / 6, beta=0.5), 13),
    "hardsigmoid_default": (_plain("HardSigmoid"), 13),
    "selu": (_plain("Selu"), 13),
    "celu": (_plain("Celu", alpha=0.7), 13),
    "softsign": (_plain("Softsign"), 13),
    "thresholded": (_plain("ThresholdedRelu", alpha=0.3), 13),
}  # fmt: skip
_SMOOTH = ("relu", "relu6", "clip")

# name: (input shape, output channels, kernel, attributes)
GEOMETRIES: dict[str, tuple[tuple[int, int, int, int], int, tuple[int, int], dict[str, Any]]] = {
    "1x1": ((1, 32, 9, 11), 24, (1, 1), {}),
    "1x1_s2": ((1, 16, 10, 10), 16, (1, 1), {"strides": [2, 2]}),
    "3x3_first": ((1, 3, 20, 20), 16, (3, 3), {"pads": [1, 1, 1, 1]}),
    "3x3_first_s2": ((1, 3, 24, 24), 20, (3, 3), {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
    "3x3_gray": ((1, 1, 20, 20), 8, (3, 3), {"pads": [1, 1, 1, 1]}),
    "3x3_odd": ((1, 17, 13, 15), 19, (3, 3), {"pads": [1, 1, 1, 1]}),
    "3x3_valid": ((1, 16, 12, 12), 32, (3, 3), {}),
    "5x5_s2": ((1, 12, 17, 17), 12, (5, 5), {"pads": [2, 2, 2, 2], "strides": [2, 2]}),
    "7x7": ((1, 8, 16, 16), 8, (7, 7), {"pads": [3, 3, 3, 3]}),
    "1x5": ((1, 16, 12, 14), 16, (1, 5), {"pads": [0, 2, 0, 2]}),
    "5x1": ((1, 16, 12, 14), 16, (5, 1), {"pads": [2, 0, 2, 0]}),
    "asymmetric": ((1, 16, 12, 12), 16, (3, 3), {"pads": [0, 1, 2, 1]}),
    "dilated": ((1, 16, 14, 14), 16, (3, 3), {"pads": [2, 2, 2, 2], "dilations": [2, 2]}),
    "strides_2_1": ((1, 16, 14, 14), 16, (3, 3), {"pads": [1, 1, 1, 1], "strides": [2, 1]}),
    "same_upper": ((1, 16, 13, 13), 16, (3, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    "grouped": ((1, 32, 12, 12), 32, (3, 3), {"pads": [1, 1, 1, 1], "group": 4}),
    "depthwise": ((1, 24, 12, 12), 24, (3, 3), {"pads": [1, 1, 1, 1], "group": 24}),
    "depthwise_s2": ((1, 16, 12, 12), 16, (5, 5), {"pads": [2, 2, 2, 2], "group": 16, "strides": [2, 2]}),
    "depthwise_x2": ((1, 16, 12, 12), 32, (3, 3), {"pads": [1, 1, 1, 1], "group": 16}),
    "batch2": ((2, 16, 10, 10), 16, (3, 3), {"pads": [1, 1, 1, 1]}),
    "wide": ((1, 160, 6, 6), 96, (3, 3), {"pads": [1, 1, 1, 1]}),
    "whole_window": ((1, 32, 7, 7), 40, (7, 7), {}),
}  # fmt: skip

DECONVOLUTIONS: dict[str, tuple[tuple[int, int, int, int], int, int, dict[str, Any]]] = {
    "2x2_s2": ((1, 16, 8, 8), 16, 2, {"strides": [2, 2]}),
    "4x4_s2": ((1, 16, 8, 8), 12, 4, {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "3x3_s1": ((1, 16, 9, 9), 16, 3, {"pads": [1, 1, 1, 1]}),
    "3x3_s2_out": ((1, 16, 8, 8), 16, 3, {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}),
    "3x3_s3": ((1, 16, 7, 7), 16, 3, {"strides": [3, 3]}),
    "8x8_s4": ((1, 8, 6, 6), 8, 8, {"strides": [4, 4], "pads": [2, 2, 2, 2]}),
    "depthwise": ((1, 16, 8, 8), 16, 4, {"strides": [2, 2], "pads": [1, 1, 1, 1], "group": 16}),
    "grouped": ((1, 32, 8, 8), 32, 2, {"strides": [2, 2], "group": 2}),
}  # fmt: skip


def _geometry(
    shape: tuple[int, ...], outputs: int, kernel: tuple[int, int], attributes: dict[str, Any]
) -> Any:
    def build(n: Net) -> str:
        x, groups = n.x(*shape), attributes.get("group", 1)
        weight = n.weight(outputs, shape[1] // groups, *kernel)
        return n.op("Conv", x, weight, n.weight(outputs), kernel_shape=list(kernel), **attributes)

    return build


def _deconvolution(shape: tuple[int, ...], outputs: int, kernel: int, attributes: dict[str, Any]) -> Any:
    def build(n: Net) -> str:
        x, groups = n.x(*shape), attributes.get("group", 1)
        weight = n.weight(shape[1], outputs // groups, kernel, kernel)
        return n.op(
            "ConvTranspose", x, weight, n.weight(outputs), kernel_shape=[kernel, kernel], **attributes
        )

    return build


def _activated(activation: Activation, depthwise: bool = False, transposed: bool = False) -> Any:
    def build(n: Net) -> str:
        x = n.x(1, 16, 12, 12)
        if transposed:
            weight = n.weight(16, 16, 2, 2)
            return activation(n, n.op("ConvTranspose", x, weight, n.weight(16), strides=[2, 2]))
        return activation(n, n.conv(x, 16, 16, group=16 if depthwise else 1))

    return build


def _residual(before: str, combine: str, after: str, other: str = "input") -> Any:
    """conv -> before -> combine with ``other`` -> after."""

    def build(n: Net) -> str:
        x = n.x(1, 16, 10, 10)
        trunk = n.op("Relu", n.conv(x, 16, 16)) if other != "input" else x
        y = n.conv(trunk, 16, 16)
        y = ACTIVATIONS[before][0](n, y) if before else y
        side = {
            "input": lambda: x,
            "conv": lambda: n.conv(trunk, 16, 16, 1),
            "constant": lambda: n.weight(1, 16, 1, 1),
            "tensor": lambda: n.weight(1, 16, 10, 10),
            "scale": lambda: n.op("Sigmoid", n.conv(n.op("GlobalAveragePool", trunk), 16, 16, 1)),
        }[other]()
        y = n.op(combine, y, side)
        return ACTIVATIONS[after][0](n, y) if after else y

    return build


def _dense(n: Net) -> str:
    y = n.op("Gemm", n.x(1, 48), n.weight(20, 48), n.weight(20), transB=1)
    return n.op("Gemm", n.op("Relu", y), n.weight(10, 20), n.weight(10), transB=1)


def _dense_batch(n: Net) -> str:
    return n.op("Gemm", n.x(5, 32), n.weight(32, 24), n.weight(24))


def _conv_bn(n: Net) -> str:
    y = n.conv(n.x(1, 16, 10, 10), 16, 16)
    stats = [
        n.const(n.rng.uniform(0.5, 1.5, 16)),
        n.weight(16),
        n.weight(16),
        n.const(n.rng.uniform(0.5, 2, 16)),
    ]
    return n.op("Relu", n.op("BatchNormalization", y, *stats))


def _conv1d(n: Net) -> str:
    return n.op("Conv", n.x(1, 16, 40), n.weight(24, 16, 3), n.weight(24), kernel_shape=[3], pads=[1, 1])


def _conv1d_dilated(n: Net) -> str:
    y = n.op(
        "Conv", n.x(1, 16, 40), n.weight(16, 1, 3), kernel_shape=[3], pads=[2, 2], dilations=[2], group=16
    )
    return n.op("Relu", y)


def _conv1d_long(dilation: int) -> Callable[[Net], str]:
    """A kernel that no register holds, as QuartzNet has it; with a dilation the converter does not split it."""

    def build(n: Net) -> str:
        pads = [43 * dilation] * 2
        x, weight = n.x(1, 8, 200), n.weight(8, 1, 87)
        return n.op("Conv", x, weight, kernel_shape=[87], pads=pads, dilations=[dilation], group=8)

    return build


def _deconv1d_long(n: Net) -> str:
    return n.op("ConvTranspose", n.x(1, 8, 20), n.weight(8, 8, 64), kernel_shape=[64], strides=[4])


def _silent(gain: float) -> Callable[[Net], str]:
    """Depthwise on channels of which two are 0 for every input and have far larger weights than the others."""

    def build(n: Net) -> str:
        eye, lower = np.eye(8)[:, :, None, None], np.r_[-100.0, -100.0, np.zeros(6)]
        seen = n.op("Relu", n.op("Conv", n.x(1, 8, 9, 8), n.const(eye), n.const(lower)))
        weight = n.rng.uniform(-0.4, 0.4, (8, 1, 3, 3)) * np.r_[gain, gain, np.ones(6)][:, None, None, None]
        return n.op("Conv", seen, n.const(weight), n.weight(8), pads=[1] * 4, group=8)

    return build


def _two_heads(n: Net) -> list[str]:
    trunk = n.op("Relu", n.conv(n.x(1, 8, 12, 12), 8, 16))
    return [n.conv(trunk, 16, 12, 1), n.op("Sigmoid", n.conv(trunk, 16, 4, 1))]


def _odd_heads(n: Net) -> list[str]:
    """Two heads of a detector whose positions are no multiples of 4: 13 x 13 and 7 x 7."""
    x = n.x(1, 3, 13, 13)
    return [n.conv(x, 3, 18, 1), n.conv(x, 3, 36, 3, strides=[2, 2])]


def cases() -> Iterator[Case]:
    """All cases of this family."""
    yield Case("odd_heads", _odd_heads)
    for name, (shape, outputs, window, attributes) in GEOMETRIES.items():
        yield Case(f"conv_{name}", _geometry(shape, outputs, window, attributes))
    for name, (shape, outputs, kernel, attributes) in DECONVOLUTIONS.items():
        yield Case(f"deconv_{name}", _deconvolution(shape, outputs, kernel, attributes))
    for name, (activation, opset) in ACTIVATIONS.items():
        judge = Judge.CLOSE if name in _SMOOTH else Judge.FUSED
        yield Case(f"conv+{name}", _activated(activation), opset, judge)
    for name in ("relu", "leaky", "silu", "sigmoid", "hardswish"):
        judge = Judge.CLOSE if name in _SMOOTH else Judge.FUSED
        yield Case(f"depthwise+{name}", _activated(ACTIVATIONS[name][0], depthwise=True), 13, judge)
    for name in ("relu", "prelu", "silu", "tanh"):
        judge = Judge.CLOSE if name in _SMOOTH else Judge.FUSED
        yield Case(f"deconv+{name}", _activated(ACTIVATIONS[name][0], transposed=True), 13, judge)
    for before, combine, after, other in (
        ("", "Add", "", "input"), ("", "Add", "relu", "input"), ("relu", "Add", "", "input"),
        ("relu6", "Add", "", "input"), ("leaky", "Add", "", "input"), ("silu", "Add", "", "input"),
        ("", "Add", "silu", "conv"), ("", "Add", "relu", "conv"), ("", "Mul", "", "input"), ("", "Mul", "", "scale"),
        ("", "Sub", "", "input"), ("", "Add", "", "constant"), ("", "Mul", "", "constant"), ("", "Add", "", "tensor"),
        ("", "Mul", "", "tensor"), ("", "Mul", "relu", "input"), ("", "Mul", "relu", "conv"), ("", "Max", "", "input"), ("prelu", "Add", "", "input"),
    ):  # fmt: skip
        parts = "+".join(part for part in (before, combine.lower(), after) if part)
        yield Case(f"conv+{parts}_{other}", _residual(before, combine, after, other), 13, Judge.FUSED)
    yield Case("dense", _dense)
    yield Case("dense_batch5", _dense_batch)
    yield Case("conv_bn_relu", _conv_bn)
    yield Case("conv1d", _conv1d)
    yield Case("conv1d_depthwise_dilated", _conv1d_dilated)
    yield Case("conv1d_long", _conv1d_long(1))
    yield Case("conv1d_long_dilated", _conv1d_long(2))
    yield Case("deconv1d_long", _deconv1d_long)
    for gain in (1e2, 1e4, 1e6):
        yield Case(f"depthwise_silent_{gain:.0e}", _silent(gain), dtypes=("i8",))
    yield Case("conv_two_heads", _two_heads)
