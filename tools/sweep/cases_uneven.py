"""What square kernels, many channels and slopes per channel hide: a place read as its neighbour, a shared number as many.

Small enough for the tests: ``pack.py`` puts the converted files of these cases into one archive of tests/data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Union

from graph import Case, Net

__all__ = ["cases"]

Step = Callable[[Net, str], str]
_LAYER = {"quantized_method": "layer"}
_INPUTS, _OUTPUTS = 6, 5
_SIZE = (5, 6)

# name: (kernel, strides, pads, output padding, dilations)
_TRANSPOSED: dict[str, tuple[tuple[int, int], ...]] = {
    "wide": ((3, 5), (1, 1), (0, 0, 0, 0), (0, 0), (1, 1)),
    "wide_padded": ((3, 5), (1, 1), (1, 2, 1, 2), (0, 0), (1, 1)),
    "tall_s21": ((5, 3), (2, 1), (1, 0, 2, 1), (1, 0), (1, 1)),
    "top_only": ((3, 3), (2, 2), (1, 0, 0, 0), (0, 0), (1, 1)),
    "left_only": ((3, 3), (2, 2), (0, 1, 0, 0), (0, 0), (1, 1)),
    "s23": ((4, 2), (2, 3), (1, 0, 0, 1), (0, 1), (1, 1)),
    "dilated": ((2, 3), (1, 1), (1, 0, 1, 1), (0, 0), (2, 1)),
}  # fmt: skip
_SLOPES: dict[str, Union[float, tuple[float, float]]] = {
    "shared": 0.25, "shared_negative": -0.3, "shared_steep": 1.6, "shared_steeper": 5.0,
    "channels": (0.1, 0.5), "channels_signed": (-0.6, 0.6), "channels_steep": (0.5, 2.5), "channels_steeper": (0.5, 60.0),
}  # fmt: skip


def _transposed(kernel: Any, strides: Any, pads: Any, more: Any, dilations: Any, groups: int = 1) -> Step:
    def run(n: Net, x: str) -> str:
        inputs = _INPUTS if groups == 1 else groups
        outputs = _OUTPUTS if groups == 1 else 1
        return n.op(
            "ConvTranspose", x, n.weight(inputs, outputs, *kernel), n.weight(outputs * groups), group=groups,
            kernel_shape=list(kernel), strides=list(strides), pads=list(pads), output_padding=list(more),
            dilations=list(dilations),
        )  # fmt: skip

    return run


def _transposed_1d(outputs: int, kernel: int, stride: int, pads: tuple[int, int]) -> Callable[[Net], str]:
    def build(n: Net) -> str:
        x = n.x(1, _INPUTS, 10)
        weight = n.weight(_INPUTS, outputs, kernel)
        return n.op(
            "ConvTranspose",
            x,
            weight,
            n.weight(outputs),
            kernel_shape=[kernel],
            strides=[stride],
            pads=list(pads),
        )

    return build


def _clip(low: float, high: float) -> Step:
    return lambda n, x: n.op("Clip", x, n.const(low), n.const(high))


def _conv(outputs: int, depthwise: bool = False) -> Step:
    channels = _INPUTS if depthwise else outputs
    return lambda n, x: n.conv(x, _INPUTS, channels, group=_INPUTS if depthwise else 1)


def _act(kind: str, **attributes: Any) -> Step:
    return lambda n, x: n.op(kind, x, **attributes)


def _prelu(slope: Union[float, tuple[float, float]], channels: int) -> Step:
    def run(n: Net, x: str) -> str:
        if isinstance(slope, tuple):
            return n.op("PRelu", x, n.const(n.rng.uniform(*slope, (channels, 1, 1))))
        return n.op("PRelu", x, n.const([[[slope]]]))

    return run


def _added(n: Net, x: str) -> str:
    return n.op("Add", x, n.conv(n.sources[0].name, _INPUTS, 1, 1))


def _chain(*steps: Step, channels: int = _INPUTS) -> Callable[[Net], str]:
    def build(n: Net) -> str:
        y = n.x(1, channels, *_SIZE)
        for step in steps:
            y = step(n, y)
        return y

    return build


def _one_channel() -> Iterator[Case]:
    tails: dict[str, tuple[Step, ...]] = {
        "": (), "+relu": (_act("Relu"),), "+sigmoid": (_act("Sigmoid"),), "+leaky": (_act("LeakyRelu", alpha=0.1),),
        "+add": (_added,),
    }  # fmt: skip
    for name, tail in tails.items():
        yield Case(f"uneven_one_channel{name}", _chain(_conv(1), *tail))
    for name in ("", "+leaky", "+relu"):
        yield Case(f"uneven_shared_scale{name}", _chain(_conv(_OUTPUTS), *tails[name]), config=_LAYER)
        yield Case(
            f"uneven_shared_scale_depthwise{name}", _chain(_conv(0, True), *tails[name]), config=_LAYER
        )


def cases() -> Iterator[Case]:
    """All cases of uneven geometry, single channels and shared parameters."""
    for name, geometry in _TRANSPOSED.items():
        yield Case(f"uneven_deconv_{name}", _chain(_transposed(*geometry)))
    yield Case(
        "uneven_deconv_tall_depthwise", _chain(_transposed(*_TRANSPOSED["tall_s21"], groups=8), channels=8)
    )
    yield Case("uneven_deconv_wide+relu", _chain(_transposed(*_TRANSPOSED["wide_padded"]), _act("Relu")))
    yield Case("uneven_deconv_first+sigmoid", _first_transposed)
    yield Case("uneven_deconv_1d", _transposed_1d(4, 6, 3, (2, 1)))
    yield Case("uneven_deconv_1d_one_channel", _transposed_1d(1, 8, 4, (0, 0)))
    yield from _one_channel()
    for size in (3e-3, 1e-3):
        yield Case(f"uneven_small_conv+add_{size:g}", _small_branch(size))
    for name, slope in _SLOPES.items():
        yield Case(f"uneven_conv+prelu_{name}", _chain(_conv(_OUTPUTS), _prelu(slope, _OUTPUTS)))
        yield Case(f"uneven_prelu_{name}", _chain(_prelu(slope, _INPUTS)))
    yield Case("uneven_shared_scale+prelu", _chain(_conv(_OUTPUTS), _prelu(0.3, _OUTPUTS)), config=_LAYER)
    yield Case(
        "uneven_shared_scale_depthwise+prelu", _chain(_conv(0, True), _prelu(0.3, _INPUTS)), config=_LAYER
    )
    yield Case("uneven_one_channel+prelu+add", _chain(_conv(1), _prelu(0.3, 1), _added))
    for name, low, high in (("above", 0.1, 0.9), ("below", -1.0, -0.1)):  # zero is not between the limits
        yield Case(f"uneven_conv+clip_{name}", _chain(_conv(_OUTPUTS), _clip(low, high)))
    for alpha in (2.5, -2.5):
        yield Case(f"uneven_conv+leaky_{alpha:g}", _chain(_conv(_OUTPUTS), _act("LeakyRelu", alpha=alpha)))
        yield Case(f"uneven_leaky_{alpha:g}", _chain(_act("LeakyRelu", alpha=alpha)))


def _small_branch(size: float) -> Callable[[Net], str]:
    """A convolution that gives little beside what it is added to, as a residual with a scale of its own does."""

    def build(n: Net) -> str:
        x = n.op("Relu", n.conv(n.x(1, 8, 6, 6), 8, 8))
        y = n.conv(n.op("Relu", n.conv(x, 8, 8)), 8, 8)
        return n.op("Add", x, n.op("Mul", y, n.const(size)))

    return build


def _first_transposed(n: Net) -> str:
    """Four input channels: the form of first layers."""
    y = n.op(
        "ConvTranspose", n.x(1, 4, 7, 5), n.weight(4, 8, 7, 1), n.weight(8),
        kernel_shape=[7, 1], strides=[2, 1], pads=[3, 0, 2, 0],
    )  # fmt: skip
    return n.op("Sigmoid", y)
