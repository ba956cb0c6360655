"""What the random cases share: activations with drawn parameters, convolutions with drawn geometry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from chance import Chance
from graph import Net

__all__ = ["ACTIVATIONS", "Window", "activate", "convolution", "draw_window"]

Activation = Callable[[Net, Chance, str, int], str]


def _prelu(n: Net, c: Chance, x: str, channels: int) -> str:
    shape = c.pick((1,), (1, 1, 1), (channels, 1, 1), (channels, 1, 1))
    low = c.pick(0.02, 0.02, -0.3)
    return n.op("PRelu", x, n.const(n.rng.uniform(low, c.real(0.2, 0.9), shape)))


def _clip(n: Net, c: Chance, x: str, channels: int) -> str:
    low = c.pick(0.0, 0.0, -1.0, -0.25, c.real(-2, 0))
    return n.op("Clip", x, n.const(low), n.const(c.pick(6.0, 1.0, c.real(0.3, 3))))


def _silu(n: Net, c: Chance, x: str, channels: int) -> str:
    beta = c.pick(1.0, 1.0, 1.702)
    return n.op("Mul", x, n.op("Sigmoid", x if beta == 1 else n.op("Mul", x, n.const(beta))))


def _gelu(n: Net, c: Chance, x: str, channels: int) -> str:
    erf = n.op("Erf", n.op("Div", x, n.const(2**0.5)))
    return n.op("Mul", n.op("Mul", x, n.op("Add", erf, n.const(1.0))), n.const(0.5))


def _mish(n: Net, c: Chance, x: str, channels: int) -> str:
    return n.op("Mul", x, n.op("Tanh", n.op("Softplus", x)))


def _hardswish(n: Net, c: Chance, x: str, channels: int) -> str:
    if c.odds(0.5):
        return n.op("Mul", x, n.op("HardSigmoid", x, alpha=1 / 6, beta=0.5))
    inner = n.op("Clip", n.op("Add", x, n.const(3.0)), n.const(0.0), n.const(6.0))
    return n.op("Div", n.op("Mul", x, inner), n.const(6.0))


def _leaky(n: Net, c: Chance, x: str, channels: int) -> str:
    return n.op("LeakyRelu", x, alpha=c.pick(0.01, 0.1, 0.2, c.real(0.02, 0.9)))


def _plain(kind: str, **ranges: tuple[float, float]) -> Activation:
    def run(n: Net, c: Chance, x: str, channels: int) -> str:
        return n.op(kind, x, **{name: c.real(*limits) for name, limits in ranges.items()})

    return run


ACTIVATIONS: dict[str, Activation] = {
    "relu": _plain("Relu"),
    "clip": _clip,
    "leaky": _leaky,
    "prelu": _prelu,
    "sigmoid": _plain("Sigmoid"),
    "tanh": _plain("Tanh"),
    "elu": _plain("Elu", alpha=(0.3, 1.5)),
    "silu": _silu,
    "gelu": _gelu,
    "mish": _mish,
    "softplus": _plain("Softplus"),
    "hardswish": _hardswish,
    "hardsigmoid": _plain("HardSigmoid", alpha=(0.1, 0.4), beta=(0.3, 0.6)),
    "selu": _plain("Selu"),
    "celu": _plain("Celu", alpha=(0.4, 1.5)),
    "softsign": _plain("Softsign"),
    "thresholded": _plain("ThresholdedRelu", alpha=(0.1, 0.6)),
    "abs": _plain("Abs"),
    "neg": _plain("Neg"),
}
_COMMON = ("relu", "relu", "clip", "leaky", "prelu", "silu", "hardswish", "sigmoid", "hardsigmoid")


def activate(n: Net, c: Chance, x: str, channels: int, share: float = 1.0) -> str:
    """``x`` with an activation, in ``share`` of all cases."""
    if not c.odds(share):
        return x
    kind = c.pick(*_COMMON) if c.odds(0.6) else c.pick(*ACTIVATIONS)
    return ACTIVATIONS[kind](n, c, x, channels)


@dataclass(frozen=True)
class Window:
    """A kernel that moves: everything per axis, height first."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    """All begins, then all ends."""
    dilations: tuple[int, ...]

    def attributes(self) -> dict[str, Any]:
        """As ONNX writes them; what is the default is sometimes left out by exporters, too."""
        found: dict[str, Any] = {"kernel_shape": list(self.kernel)}
        if any(s != 1 for s in self.strides):
            found["strides"] = list(self.strides)
        if any(self.pads):
            found["pads"] = list(self.pads)
        if any(d != 1 for d in self.dilations):
            found["dilations"] = list(self.dilations)
        return found


def draw_window(c: Chance, sides: tuple[int, ...], largest: int = 7, dilate: float = 0.2) -> Window:
    """A window that fits into the sides."""
    kernel, strides, begins, ends, dilations = [], [], [], [], []
    square = c.odds(0.25)
    for axis, side in enumerate(sides):
        size = kernel[0] if square and axis else c.whole(1, min(largest, side))
        dilation = c.pick(2, 2, 3) if size > 1 and c.odds(dilate) else 1
        if (size - 1) * dilation + 1 > side:
            size, dilation = min(size, side), 1
        reach = (size - 1) * dilation
        kernel.append(size)
        dilations.append(dilation)
        strides.append(strides[0] if square and axis else c.pick(1, 1, 1, 2, 2, 3))
        begins.append(c.whole(0, reach))
        ends.append(c.whole(0, reach))
    return Window(tuple(kernel), tuple(strides), (*begins, *ends), tuple(dilations))


def convolution(n: Net, c: Chance, x: str, inputs: int, outputs: int, window: Window, groups: int = 1) -> str:
    """A convolution, most often with a bias."""
    weight = n.weight(outputs, inputs // groups, *window.kernel)
    bias = [n.weight(outputs)] if c.odds(0.85) else []
    extra = {"group": groups} if groups > 1 else {}
    return n.op("Conv", x, weight, *bias, **window.attributes(), **extra)
