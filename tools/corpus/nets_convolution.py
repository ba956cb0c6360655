"""Single-layer cases: convolutions, depthwise and transposed convolutions, fused activations, residual forms.

Each of them is converted for rk3588 int8, so that a difference can be pinned to one operator, and many for
one of the other SoCs and types in turn.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Any

from case import Case, Input
from layers import ACTIVATIONS, Fn, Residual, SqueezeExcite, activation, conv, deconv, depthwise
from torch import nn

OTHERS = (
    "rk3576.i8",
    "rk3562.i8",
    "rk3566.i8",
    "rk3588.fp16",
    "rv1126b.i8",
    "rk3576.fp16",
    "rk3562.fp16",
    "rk3568.i8",
    "rv1126b.fp16",
    "rk3566.fp16",
)


def noise(*shape: int) -> tuple[Input, ...]:
    """One input of independent pixels."""
    return (Input(shape, "noise"),)


def plain(cin: int, cout: int, k: int = 3, gain: float = 2.5, **options: Any) -> nn.Conv2d:
    """A convolution without batch norm whose outputs have a standard deviation of about ``gain``."""
    layer = nn.Conv2d(cin, cout, k, **options)
    fan_in = cin // layer.groups * k * k
    nn.init.normal_(layer.weight, 0.0, gain / fan_in**0.5)
    if layer.bias is not None:
        nn.init.normal_(layer.bias, 0.0, gain / 3)
    return layer


_SEEDS = {"conv_mul": 3, "deconv_k4_s2_silu": 5}  # draws whose outputs use the int8 range well


def _single(name: str, build: Callable[[], nn.Module], shape: tuple[int, ...]) -> tuple[str, Any, Any]:
    return name, build, noise(1, *shape)


def _padded(layer: nn.Module, *pads: int) -> nn.Module:
    """Explicit padding (left, right, top, bottom) before a layer; the toolkit merges the two."""
    return nn.Sequential(nn.ZeroPad2d(pads), layer)


def _fused(act: str) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(plain(8, 12, padding=1), activation(act, 12))


def _convolutions() -> list[tuple[str, Any, Any]]:
    return [
        _single("conv_1x1", lambda: conv(20, 40, 1, act=None), (20, 9, 11)),
        _single("conv_3x3_odd", lambda: conv(3, 5, 3, act=None), (3, 13, 17)),
        _single("conv_5x5", lambda: conv(5, 20, 5), (5, 16, 11)),
        _single("conv_7x7_s2", lambda: conv(3, 24, 7, 2), (3, 24, 20)),
        _single("conv_wide", lambda: conv(70, 35, 1), (70, 7, 8)),
        _single("conv_3x3_wide", lambda: conv(40, 33, 3, 2, act=None), (40, 11, 11)),
        _single(
            "conv_uneven", lambda: _padded(conv(4, 12, (3, 5), (2, 1), padding=0), 1, 3, 0, 2), (4, 14, 12)
        ),
        _single("conv_dilated", lambda: conv(8, 12, 3, 1, dilation=(1, 2), padding=(1, 2)), (8, 12, 10)),
        _single("conv_group", lambda: conv(20, 40, 3, 1, groups=5), (20, 8, 10)),
        _single("conv_group_odd", lambda: conv(9, 15, 3, 1, act=None, groups=3), (9, 10, 9)),
        _single("conv_multiplier", lambda: conv(12, 24, 3, 1, groups=12), (12, 8, 10)),
        _single("conv_grey", lambda: conv(1, 8, 3), (1, 16, 15)),
        _single("depthwise_s2", lambda: depthwise(20, 3, 2, "relu6"), (20, 13, 16)),
        _single("depthwise_5x5", lambda: depthwise(33, 5, 1, None), (33, 9, 8)),
        _single("depthwise_dilated", lambda: depthwise(12, 3, 1, "relu", dilation=2), (12, 12, 10)),
        _single(
            "depthwise_uneven",
            lambda: _padded(depthwise(70, 3, 2, "silu", padding=0), 0, 1, 0, 1),
            (70, 10, 8),
        ),
        _single("deconv_k4_s2", lambda: deconv(12, 20, 4, 2, 1), (12, 6, 7)),
        _single("deconv_k3_s2", lambda: deconv(20, 9, 3, 2, 1, output_padding=1), (20, 6, 5)),
        _single("deconv_k2_s2_relu", lambda: deconv(8, 16, 2, 2, 0, "relu"), (8, 7, 6)),
        _single("deconv_k4_s2_silu", lambda: deconv(16, 8, 4, 2, 1, "silu"), (16, 6, 6)),
        _single("deconv_k3_s1", lambda: deconv(5, 12, 3, 1, 1, "leaky"), (5, 9, 10)),
        _single("deconv_k5_s3", lambda: deconv(8, 6, 5, 3, 1), (8, 5, 6)),
        _single("deconv_depthwise", lambda: deconv(20, 20, 4, 2, 1, groups=20), (20, 6, 5)),
        _single("deconv_depthwise_relu", lambda: deconv(16, 16, 2, 2, 0, "relu", groups=16), (16, 6, 7)),
    ]


def _residuals() -> list[tuple[str, Any, Any]]:
    body = lambda act=None: conv(12, 12, 3, act=act)  # noqa: E731
    return [
        _single("residual_add", lambda: nn.Sequential(conv(3, 12, 1), Residual(body())), (3, 10, 12)),
        _single(
            "residual_add_relu",
            lambda: nn.Sequential(conv(3, 12, 1), Residual(body(), act="relu")),
            (3, 10, 12),
        ),
        _single(
            "residual_leaky_add", lambda: nn.Sequential(conv(3, 12, 1), Residual(body("leaky"))), (3, 10, 12)
        ),
        _single(
            "residual_silu_add", lambda: nn.Sequential(conv(3, 12, 1), Residual(body("silu"))), (3, 10, 12)
        ),
        _single(
            "residual_add_leaky",
            lambda: nn.Sequential(conv(3, 12, 1), Residual(body(), act="leaky")),
            (3, 10, 12),
        ),
        _single(
            "squeeze_excite",
            lambda: nn.Sequential(conv(3, 20, 3), SqueezeExcite(20, 8, "sigmoid")),
            (3, 10, 12),
        ),
        _single(
            "conv_mul",
            lambda: Fn(lambda m, x: m["a"](x) * m["b"](x).sigmoid(), a=plain(8, 12), b=plain(8, 12)),
            (8, 9, 9),
        ),
    ]


def cases() -> list[Case]:
    """All single-layer cases."""
    found = [
        Case(
            "conv_relu",
            lambda: conv(3, 16, 3, 2),
            noise(1, 3, 24, 24),
            ("rk3588.i8", "rk3588.fp16", "rk3566.i8", "rk3562.i8", "rk3576.i8", "rv1126b.i8"),
            multicore=True,
        ),
        Case(
            "depthwise_3x3",
            lambda: depthwise(40),
            noise(1, 40, 8, 9),
            ("rk3588.i8", "rk3588.fp16", "rk3568.i8", "rk3562.i8", "rk3576.i8", "rv1126b.i8"),
            multicore=True,
        ),
    ]
    singles = [*_convolutions(), *_residuals()]
    singles += [_single(f"act_{act}", _fused(act), (8, 12, 12)) for act in ACTIVATIONS]
    floats = cycle(("rk3588.fp16", "rk3562.fp16", "rk3576.fp16", "rk3566.fp16", "rv1126b.fp16"))
    other = cycle(OTHERS)
    for i, (name, build, inputs) in enumerate(singles):
        more = (next(floats if name.startswith("act_") else other),) if i % 2 == 0 else ()
        found.append(Case(name, build, inputs, ("rk3588.i8", *more), seed=_SEEDS.get(name, 0)))
    return found
