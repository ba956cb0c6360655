"""Networks of realistic size for the benchmarks, random weights; a registry for tools/corpus/make.py.

Depths and widths follow the published networks; the weights are random with calibrated batch norms, which is
all that speed, memory and agreement with the simulator depend on. See README.md in this folder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from case import FAMILIES, Case, Input
from layers import Residual, SqueezeExcite, conv, depthwise
from nets_detection import C2f, Yolo8
from nets_whole import VisionTransformer, image
from torch import Tensor, nn
from torch.nn import functional as F

TARGETS = (*(f"{soc}.i8" for soc in FAMILIES), "rk3588.fp16")
ZERO_TO_ONE = {"mean": ((0.0, 0.0, 0.0),), "std": ((255.0, 255.0, 255.0),)}
MINUS_ONE_TO_ONE = {"mean": ((127.5, 127.5, 127.5),), "std": ((127.5, 127.5, 127.5),)}
SILU = "silu"


def _double(x: Tensor) -> Tensor:
    return F.interpolate(x, scale_factor=2.0, mode="nearest")


# -- classifiers ---------------------------------------------------------------------------------------------


def _basic(cin: int, cout: int, s: int = 1) -> nn.Module:
    body = nn.Sequential(conv(cin, cout, 3, s), conv(cout, cout, 3, act=None))
    shortcut = conv(cin, cout, 1, s, act=None) if s > 1 or cin != cout else None
    return Residual(body, shortcut, "relu")


def resnet18() -> nn.Module:
    """ResNet-18: 11.7 million weights."""
    layers: list[nn.Module] = [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [_basic(channels, width, stride), _basic(width, width)]
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


def _inverted(cin: int, cout: int, s: int, expand: int) -> nn.Module:
    mid = cin * expand
    layers = [conv(cin, mid, 1, act="relu6")] if expand > 1 else []
    body = nn.Sequential(*layers, depthwise(mid, 3, s, "relu6"), conv(mid, cout, 1, act=None))
    return Residual(body) if s == 1 and cin == cout else body


def mobilenetv2() -> nn.Module:
    """MobileNetV2 of width 1.0: 3.5 million weights."""
    plan = (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
        (6, 320, 1, 1),
    )  # fmt: skip
    layers: list[nn.Module] = [conv(3, 32, 3, 2, "relu6")]
    channels = 32
    for expand, width, count, stride in plan:
        for i in range(count):
            layers.append(_inverted(channels, width, stride if i == 0 else 1, expand))
            channels = width
    head = (conv(320, 1280, 1, act="relu6"), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000))
    return nn.Sequential(*layers, *head)


def _divisible_by_8(value: float) -> int:
    near = max(8, int(value + 4) // 8 * 8)
    return near + 8 if near < 0.9 * value else near


def mobilenetv3_small() -> nn.Module:
    """MobileNetV3-Small: hardswish, squeeze and excite, 5x5 depthwise."""
    swish = "hardswish"
    plan = (
        (3, 16, 16, True, "relu", 2), (3, 72, 24, False, "relu", 2), (3, 88, 24, False, "relu", 1),
        (5, 96, 40, True, swish, 2), (5, 240, 40, True, swish, 1), (5, 240, 40, True, swish, 1),
        (5, 120, 48, True, swish, 1), (5, 144, 48, True, swish, 1), (5, 288, 96, True, swish, 2),
        (5, 576, 96, True, swish, 1), (5, 576, 96, True, swish, 1),
    )  # fmt: skip
    layers: list[nn.Module] = [conv(3, 16, 3, 2, swish)]
    channels = 16
    for kernel, mid, width, excite, act, stride in plan:
        block: list[nn.Module] = [conv(channels, mid, 1, act=act)] if mid != channels else []
        block.append(depthwise(mid, kernel, stride, act))
        if excite:
            block.append(SqueezeExcite(mid, _divisible_by_8(mid // 4)))
        block.append(conv(mid, width, 1, act=None))
        body = nn.Sequential(*block)
        layers.append(Residual(body) if stride == 1 and channels == width else body)
        channels = width
    layers.append(conv(96, 576, 1, act=swish))
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(576, 1024), nn.Hardswish(), nn.Linear(1024, 1000))


class _Gate(nn.Module):
    """Squeeze and excite as EfficientNet has it: SiLU inside, a sigmoid outside."""

    def __init__(self, channels: int, inner: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, inner, 1), nn.Conv2d(inner, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """x times a factor per channel."""
        pooled = F.adaptive_avg_pool2d(x, 1)
        return x * torch.sigmoid(self.up(F.silu(self.down(pooled))))


def efficientnet_b0() -> nn.Module:
    """EfficientNet-B0: SiLU, squeeze and excite, 5x5 depthwise; 5.3 million weights."""
    plan = (
        (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5), (6, 192, 4, 2, 5),
        (6, 320, 1, 1, 3),
    )  # fmt: skip
    layers: list[nn.Module] = [conv(3, 32, 3, 2, SILU)]
    channels = 32
    for expand, width, count, stride, kernel in plan:
        for i in range(count):
            mid, step = channels * expand, stride if i == 0 else 1
            block: list[nn.Module] = [conv(channels, mid, 1, act=SILU)] if expand > 1 else []
            block += [
                depthwise(mid, kernel, step, SILU),
                _Gate(mid, channels // 4),
                conv(mid, width, 1, act=None),
            ]
            body = nn.Sequential(*block)
            layers.append(Residual(body) if step == 1 and channels == width else body)
            channels = width
    layers += [conv(320, 1280, 1, act=SILU), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000)]
    return nn.Sequential(*layers)


# -- detectors -----------------------------------------------------------------------------------------------


class C3(nn.Module):
    """Two halves, one through bottlenecks, concatenated: the block of YOLOv5."""

    def __init__(self, cin: int, cout: int, depth: int = 1, shortcut: bool = True) -> None:
        super().__init__()
        mid = cout // 2
        bodies = [
            nn.Sequential(conv(mid, mid, 1, act=SILU), conv(mid, mid, 3, act=SILU)) for _ in range(depth)
        ]
        self.long = nn.Sequential(
            conv(cin, mid, 1, act=SILU), *(Residual(b) if shortcut else b for b in bodies)
        )
        self.short, self.last = conv(cin, mid, 1, act=SILU), conv(2 * mid, cout, 1, act=SILU)

    def forward(self, x: Tensor) -> Tensor:
        """Both halves side by side."""
        return self.last(torch.cat([self.long(x), self.short(x)], 1))


class SPPF(nn.Module):
    """Three poolings one after the other, concatenated."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        mid = channels // 2
        self.first, self.last = conv(channels, mid, 1, act=SILU), conv(4 * mid, channels, 1, act=SILU)

    def forward(self, x: Tensor) -> Tensor:
        """The input and what one, two and three poolings make of it."""
        parts = [self.first(x)]
        for _ in range(3):
            parts.append(F.max_pool2d(parts[-1], 5, 1, 2))
        return self.last(torch.cat(parts, 1))


class Yolo5s(nn.Module):
    """YOLOv5s (version 6): three sigmoid heads of 255 channels."""

    def __init__(self) -> None:
        super().__init__()
        stem = (conv(3, 32, 6, 2, SILU, padding=2), conv(32, 64, 3, 2, SILU), C3(64, 64, 1))
        self.b0 = nn.Sequential(*stem, conv(64, 128, 3, 2, SILU), C3(128, 128, 2))
        self.b1 = nn.Sequential(conv(128, 256, 3, 2, SILU), C3(256, 256, 3))
        self.b2 = nn.Sequential(conv(256, 512, 3, 2, SILU), C3(512, 512, 1), SPPF(512))
        self.l2, self.c3 = conv(512, 256, 1, act=SILU), C3(512, 256, 1, False)
        self.l1, self.c4 = conv(256, 128, 1, act=SILU), C3(256, 128, 1, False)
        self.d1, self.c5 = conv(128, 128, 3, 2, SILU), C3(256, 256, 1, False)
        self.d2, self.c6 = conv(256, 256, 3, 2, SILU), C3(512, 512, 1, False)
        self.heads = nn.ModuleList(nn.Conv2d(c, 255, 1) for c in (128, 256, 512))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Maps of three scales, the finest first."""
        p3 = self.b0(x)
        p4 = self.b1(p3)
        p5 = self.l2(self.b2(p4))
        f4 = self.l1(self.c3(torch.cat([_double(p5), p4], 1)))
        o3 = self.c4(torch.cat([_double(f4), p3], 1))
        o4 = self.c5(torch.cat([self.d1(o3), f4], 1))
        o5 = self.c6(torch.cat([self.d2(o4), p5], 1))
        return tuple(torch.sigmoid(head(o)) for head, o in zip(self.heads, (o3, o4, o5)))


class Yolo8n(Yolo8):
    """YOLOv8n with box decoding (distribution focal loss) inside the network."""

    strides = (8, 16, 32)

    def __init__(self, classes: int = 80) -> None:
        nn.Module.__init__(self)
        self.classes, self.decode = classes, True
        stem = (conv(3, 16, 3, 2, SILU), conv(16, 32, 3, 2, SILU), C2f(32, 32, 1))
        self.b0 = nn.Sequential(*stem, conv(32, 64, 3, 2, SILU), C2f(64, 64, 2))
        self.b1 = nn.Sequential(conv(64, 128, 3, 2, SILU), C2f(128, 128, 2))
        self.b2 = nn.Sequential(conv(128, 256, 3, 2, SILU), C2f(256, 256, 1), SPPF(256))
        self.c1, self.c2 = C2f(384, 128, 1, False), C2f(192, 64, 1, False)
        self.d1, self.c3 = conv(64, 64, 3, 2, SILU), C2f(192, 128, 1, False)
        self.d2, self.c4 = conv(128, 128, 3, 2, SILU), C2f(384, 256, 1, False)
        self.boxes = nn.ModuleList(_branch(c, 64, 64) for c in (64, 128, 256))
        self.scores = nn.ModuleList(_branch(c, 80, classes) for c in (64, 128, 256))

    def levels(self, x: Tensor) -> tuple[Tensor, ...]:
        """Feature maps of three scales."""
        p3 = self.b0(x)
        p4 = self.b1(p3)
        p5 = self.b2(p4)
        f4 = self.c1(torch.cat([_double(p5), p4], 1))
        o3 = self.c2(torch.cat([_double(f4), p3], 1))
        o4 = self.c3(torch.cat([self.d1(o3), f4], 1))
        o5 = self.c4(torch.cat([self.d2(o4), p5], 1))
        return o3, o4, o5


def _branch(cin: int, mid: int, cout: int) -> nn.Module:
    return nn.Sequential(conv(cin, mid, 3, act=SILU), conv(mid, mid, 3, act=SILU), nn.Conv2d(mid, cout, 1))


# -- segmentation, faces, super-resolution -------------------------------------------------------------------


class UNet(nn.Module):
    """U-Net with transposed convolutions and a sigmoid mask of two classes."""

    def __init__(self, widths: tuple[int, ...] = (32, 64, 128, 256)) -> None:
        super().__init__()
        self.downs = nn.ModuleList(_twice(a, b) for a, b in zip((3, *widths[:-1]), widths))
        self.ups = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in zip(widths, widths[1:]))
        self.merges = nn.ModuleList(_twice(2 * a, a) for a in widths[:-1])
        self.head = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Probability per class and pixel."""
        skips = []
        for i, down in enumerate(self.downs):
            x = down(x if i == 0 else F.max_pool2d(x, 2))
            skips.append(x)
        for i in reversed(range(len(self.ups))):
            x = self.merges[i](torch.cat([self.ups[i](x), skips[i]], 1))
        return torch.sigmoid(self.head(x))


def _twice(cin: int, cout: int) -> nn.Module:
    return nn.Sequential(conv(cin, cout, 3), conv(cout, cout, 3))


class FaceBlock(nn.Module):
    """IResNet block: batch norm, convolution, PReLU, convolution, plus shortcut."""

    def __init__(self, cin: int, cout: int, s: int) -> None:
        super().__init__()
        layers = (nn.BatchNorm2d(cin), conv(cin, cout, 3, act="prelu"), conv(cout, cout, 3, s, act=None))
        self.body = nn.Sequential(*layers)
        self.down = conv(cin, cout, 1, s, act=None) if s > 1 or cin != cout else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Sum of both paths."""
        y: Tensor = self.body(x) + self.down(x)
        return y


def iresnet18() -> nn.Module:
    """Face embedding of 512 numbers from 112 x 112 pixels."""
    layers: list[nn.Module] = [conv(3, 64, 3, act="prelu")]
    channels = 64
    for width in (64, 128, 256, 512):
        layers += [FaceBlock(channels, width, 2), FaceBlock(width, width, 1)]
        channels = width
    tail = (nn.BatchNorm2d(512), nn.Flatten(), nn.Linear(512 * 49, 512), nn.BatchNorm1d(512))
    return nn.Sequential(*layers, *tail)


def espcn(factor: int) -> nn.Module:
    """Super-resolution of a grey image: four convolutions and a pixel shuffle."""
    net = nn.Sequential(
        nn.Conv2d(1, 64, 5, padding=2), nn.Tanh(), nn.Conv2d(64, 64, 3, padding=1), nn.Tanh(),
        nn.Conv2d(64, 32, 3, padding=1), nn.Tanh(), nn.Conv2d(32, factor * factor, 3, padding=1),
        nn.PixelShuffle(factor), nn.Sigmoid(),
    )  # fmt: skip
    for layer in net.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight)
            if layer.bias is not None:
                nn.init.normal_(layer.bias, 0, 0.1)
    with torch.no_grad():
        net[6].weight.mul_(1.5)
    return net


def _case(name: str, build: Callable[[], nn.Module], size: int, **options: Any) -> Case:
    return Case(name, build, image(size), options.pop("targets", TARGETS), **options)


_GREY = {"mean": ((0.0,),), "std": ((255.0,),)}
_ALL = [
    _case("resnet18", resnet18, 224, calibration_steps=4),
    _case("mobilenetv2", mobilenetv2, 224, calibration_steps=4),
    _case("mobilenetv3_small", mobilenetv3_small, 224, calibration_steps=4),
    _case("efficientnet_b0", efficientnet_b0, 224, calibration_steps=4),
    _case(
        "yolov5s_640",
        Yolo5s,
        640,
        targets=("rk3588.i8", "rk3588.fp16"),
        calibration_steps=2,
        samples=3,
        **ZERO_TO_ONE,
    ),
    _case("yolov5s_320", Yolo5s, 320, calibration_steps=3, samples=4, **ZERO_TO_ONE),
    _case("yolov8n_320", Yolo8n, 320, calibration_steps=3, samples=4, **ZERO_TO_ONE),
    _case("unet_128", UNet, 128, **ZERO_TO_ONE),
    _case("vit_tiny", lambda: VisionTransformer(224, 16, 192, 3, 4, 1000), 224),
    _case("iresnet18", iresnet18, 112, calibration_steps=4, **MINUS_ONE_TO_ONE),
    Case("espcn_x2", lambda: espcn(2), (Input((1, 1, 96, 128)),), TARGETS, **_GREY),
    Case("espcn_x3", lambda: espcn(3), (Input((1, 1, 64, 80)),), TARGETS, **_GREY),
]
CASES = {case.name: case for case in _ALL}
