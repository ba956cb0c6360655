"""Cases about how a model is stored: compressed and narrow weights, other number types, CPU layers."""

from __future__ import annotations

from typing import Any

import torch
from case import Case, Input
from layers import Fn, activation, conv, deconv, depthwise
from torch import Tensor, nn
from torch.nn import functional as F

V1 = ("rk3588", "rk3568")
IMAGE = (Input((1, 3, 12, 10)),)
NORMAL = (Input((1, 32, 8, 8), "normal"),)


def on(socs: tuple[str, ...], *dtypes: str) -> tuple[str, ...]:
    """Every combination of SoC and type."""
    return tuple(f"{soc}.{dtype}" for soc in socs for dtype in dtypes)


def _mixed() -> nn.Module:
    """First layer, depthwise, pointwise, 5x5 and transposed: every weight layout once; most weights zero."""
    layers = nn.Sequential(
        conv(3, 12, 3, 2),
        depthwise(12),
        conv(12, 40, 1),
        conv(40, 17, 5, act="leaky"),
        deconv(17, 6, 4, 2, 1),
    )
    for layer in layers.modules():
        if isinstance(layer, (nn.Conv2d, nn.ConvTranspose2d)):
            layer.weight.data *= torch.rand_like(layer.weight) < 0.3
    return layers


def _even() -> nn.Module:
    """Weights from -128 to 127 steps: quantised as a whole, their zero point is 0. The last layer has one channel."""
    layers = [
        nn.Conv2d(3, 16, 3, 2, 1),
        nn.ReLU(),
        nn.Conv2d(16, 12, 3, 1, 1),
        nn.ReLU(),
        nn.Conv2d(12, 1, 1),
    ]
    for layer in layers[::2]:
        weight = layer.weight.data
        weight.view(-1)[weight.argmin()] = -weight.max() * 128 / 127
        weight.clamp_(min=-weight.max() * 128 / 127)
    return nn.Sequential(*layers)


def _chain() -> nn.Module:
    """Layers that differ in what int16 and bfloat16 files keep about them."""
    return nn.Sequential(
        conv(3, 12, 3, 2),
        depthwise(12, act="leaky"),
        conv(12, 24, 1, act="relu6"),
        conv(24, 9, 3, act="silu"),
    )


def _fused() -> nn.Module:
    """Every activation that int16 files name without a table."""
    names = (
        "leaky",
        "sigmoid",
        "tanh",
        "elu",
        "hardswish",
        "hardsigmoid",
        "softplus",
        "silu",
        "gelu",
        "mish",
    )
    convs = nn.ModuleDict({name: nn.Conv2d(3, 2, 3) for name in names})

    def run(m: nn.ModuleDict, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(act(m[name](x)) for name, act in zip(names, activations, strict=True))

    activations = [activation(name, 2) for name in names]
    return Fn(run, **convs)


def _narrow() -> nn.Module:
    return nn.Sequential(
        conv(3, 32, 3, 2), depthwise(32, act="leaky"), conv(32, 70, 1, act="relu6"), nn.Conv2d(70, 9, 3)
    )


def _half() -> nn.Module:
    """Two of every four weights are zero."""
    layer = nn.Conv2d(32, 16, 1)
    layer.weight.data.view(16, 8, 4, 1, 1)[:, :, 2:] = 0
    return layer


def _bytes() -> nn.Module:
    return nn.Sequential(nn.Conv2d(32, 64, 1), nn.ReLU(), nn.Conv2d(64, 16, 3, padding=1), nn.LeakyReLU(0.1))


def _targets() -> nn.Module:
    """A chain of which some layers are sent to the CPU, or compute in another type."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(),
        nn.Conv2d(8, 12, 3, 2, 1), nn.LeakyReLU(0.1),
        nn.Conv2d(12, 12, 3, padding=1, groups=12), nn.SiLU(),
        nn.ConvTranspose2d(12, 5, 4, 2, 1),
    )  # fmt: skip


class _HardSigmoid(torch.autograd.Function):
    """x * 0.25 + 0.4, clipped; torch itself only has the default line."""

    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        return g.op("HardSigmoid", x, alpha_f=0.25, beta_f=0.4)

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return torch.clamp(0.25 * x + 0.4, 0, 1)


def _hidden(alpha: float, beta: float) -> nn.Module:
    """Activations with parameters that no attribute of a fused node holds."""

    def run(m: nn.ModuleDict, x: Tensor) -> tuple[Tensor, ...]:
        a, b, c = m["elu"](x), m["silu"](x), m["line"](x)
        return F.elu(a, alpha), b * torch.sigmoid(beta * b), _HardSigmoid.apply(c)

    return Fn(run, **{name: conv(3, 4, 3, act=None) for name in ("elu", "silu", "line")})


def _operands() -> nn.Module:
    """Three operands, an operand kept in padded surfaces, and every normalisation of vectors."""
    table = nn.ParameterDict({"position": nn.Parameter(torch.randn(1, 6, 7, 9))})

    def run(m: nn.ModuleDict, x: Tensor) -> tuple[Tensor, ...]:
        a, b = m["a"](x), m["b"](x)
        return (
            torch.max(torch.max(a, b), x),
            torch.min(torch.min(a, x), b),
            a + m["table"]["position"],
            F.normalize(a, 1.0, 1),
            F.normalize(b, 2.0, 1),
        )

    return Fn(run, a=conv(6, 6, 3), b=conv(6, 6, 3, act="leaky"), table=table)


def cases() -> list[Case]:
    """All storage cases; those whose files are refused are here for the reason that is given."""
    return [*_packed(), *_types(), *_weight_only(), *_placed(), *_activations()]


def _packed() -> list[Case]:
    compress = (("compress_weight", True),)
    targets = on((*V1, "rk3562", "rk3576"), "i8") + on(("rk3588", "rk3576"), "fp16")
    return [
        Case("plain_mixed", _mixed, IMAGE, targets, like="mixed"),
        Case("packed_mixed", _mixed, IMAGE, (*targets, "rv1126b.i8"), like="mixed", config=compress),
        Case("packed_i16", _mixed, IMAGE, on(("rk3588", "rk3576"), "i16"), config=compress),
        Case("per_tensor", _even, IMAGE, ("rk3588.i8",), config=(("quantized_method", "layer"),)),
        Case("removed", _narrow, IMAGE, ("rk3588.i8",), config=(("remove_weight", True),), unusable=True),
        Case("kept", _narrow, IMAGE, ("rk3588.i8",), like="removed"),  # the master of the one before
        Case("sparse", _half, NORMAL, ("rk3576.i8",), config=(("sparse_infer", True),), unusable=True),
    ]


def _types() -> list[Case]:
    limits = lambda: Fn(lambda m, x: torch.clamp(m["c"](x), -0.7, 1.5), c=conv(3, 6, 3, act=None))  # noqa: E731
    return [
        Case("int16_chain", _chain, IMAGE, on(("rk3588", "rk3562", "rk3576"), "i16")),
        Case("int16_fused", _fused, IMAGE, on(("rk3588", "rk3562"), "i16")),
        Case("int16_limits", limits, IMAGE, ("rk3588.i16",)),
        Case("int16_limits_lost", limits, IMAGE, ("rk3562.i16",), unusable=True),
        Case("int16_slopes_lost", lambda: conv(3, 6, 3, act="prelu"), IMAGE, ("rk3576.i16",), unusable=True),
        Case("bfloat_chain", _chain, IMAGE, on(("rk3588", "rk3562", "rk3576"), "bf16")),
        Case("bfloat_prelu", lambda: conv(3, 6, 3, act="prelu"), IMAGE, on(("rk3568", "rk3576"), "bf16")),
    ]


def _weight_only() -> list[Case]:
    pair = lambda: nn.Sequential(nn.Conv2d(64, 32, 1), nn.ReLU(), nn.Conv2d(32, 8, 1))  # noqa: E731
    wide, odd = (Input((1, 64, 4, 4), "normal"),), (Input((1, 40, 4, 4), "normal"),)
    return [
        Case("nibbles", _narrow, IMAGE, on(("rk3576", "rv1126b"), "w4a16")),
        Case(
            "nibbles_layer",
            _narrow,
            IMAGE,
            ("rk3576.w4a16",),
            config=(("quantized_method", "layer"),),
            unusable=True,
        ),
        Case(
            "nibbles_group",
            pair,
            wide,
            ("rk3576.w4a16",),
            config=(("quantized_method", "group32"),),
            unusable=True,
        ),
        Case("bytes", _bytes, NORMAL, ("rk3562.w8a16",)),
        Case("bytes_uneven", lambda: nn.Conv2d(40, 16, 1), odd, ("rk3562.w8a16",), unusable=True),
    ]


def _placed() -> list[Case]:
    cpu = {"/2/Conv_output_0": "cpu", "/4/Conv_output_0": "cpu", "out0": "cpu"}
    layers = ("/2/Conv_output_0", "/3/LeakyRelu_output_0")
    return [
        Case("cpu_layers", _targets, IMAGE, ("rk3588.i8", "rk3562.fp16"), config=(("op_target", cpu),)),
        Case(
            "hybrid_float",
            _targets,
            IMAGE,
            ("rk3588.i8", "rk3576.i8"),
            hybrid=tuple((n, "float16") for n in layers),
        ),
        Case("hybrid_int16", _targets, IMAGE, ("rk3562.i8",), hybrid=tuple((n, "int16") for n in layers)),
        Case("named", lambda: conv(3, 8, 3), IMAGE, ("rk3588.i8",), config=(("custom_string", "door, v7"),)),
        Case(
            "yuv",
            lambda: conv(3, 8, 3),
            (Input((1, 3, 16, 16)),),
            ("rk3588.i8",),
            config=(("inputs_yuv_fmt", ["nv12"]),),
        ),
    ]


def _activations() -> list[Case]:
    grid = (Input((1, 6, 7, 9), "normal"),)
    uneven = lambda: nn.Sequential(conv(3, 6, 3), nn.ConvTranspose2d(6, 5, (5, 4), (4, 3), (1, 0)))  # noqa: E731
    return [
        Case("hidden_low", lambda: _hidden(0.35, 1.702), IMAGE, ("rk3588.i8",)),
        Case("hidden_high", lambda: _hidden(1.6, 0.6), IMAGE, ("rk3562.i8", "rk3588.fp16")),
        Case("operands", _operands, grid, ("rk3588.fp16", "rk3562.i8")),
        Case("deconv_uneven", uneven, IMAGE, ("rk3588.i8", "rk3588.fp16", "rk3576.i8")),
    ]
