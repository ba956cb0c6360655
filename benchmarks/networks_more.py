"""More networks for the speed page, as ``networks.py``: groups, shuffles, large kernels, dilation, text, sound; large and tiny."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from case import Case, Input
from layers import Residual, conv, depthwise
from nets_whole import _TransformerLayer, image
from torch import Tensor, nn
from torch.nn import functional as F

TARGETS = ("rk3588.i8", "rk3588.fp16")
ZERO_TO_ONE = {"mean": ((0.0, 0.0, 0.0),), "std": ((255.0, 255.0, 255.0),)}


def _classified(channels: int, classes: int = 1000) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)]


# -- classifiers ---------------------------------------------------------------------------------------------


def mobilenetv1() -> nn.Module:
    """MobileNet of width 1.0: depthwise 3x3 and 1x1 in turns, ReLU."""
    layers: list[nn.Module] = [conv(3, 32, 3, 2)]
    channels = 32
    for width, stride in (
        (64, 1),
        (128, 2),
        (128, 1),
        (256, 2),
        (256, 1),
        (512, 2),
        *[(512, 1)] * 5,
        (1024, 2),
        (1024, 1),
    ):
        layers += [depthwise(channels, 3, stride), conv(channels, width, 1)]
        channels = width
    return nn.Sequential(*layers, *_classified(channels))


class _Shuffle(nn.Module):
    """Half of the channels through a depthwise body; then both halves are mixed."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        half = channels // 2
        self.body = nn.Sequential(conv(half, half, 1), depthwise(half, 3, 1, None), conv(half, half, 1))

    def forward(self, x: Tensor) -> Tensor:
        """As many channels."""
        kept, changed = x.chunk(2, 1)
        y = torch.cat([kept, self.body(changed)], 1)
        n, c, h, w = y.shape
        return y.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


def shufflenetv2() -> nn.Module:
    """ShuffleNet v2 of width 1.0, with strided convolutions between its stages."""
    layers: list[nn.Module] = [conv(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1)]
    channels = 24
    for width, count in ((116, 3), (232, 7), (464, 3)):
        layers += [depthwise(channels, 3, 2, None), conv(channels, width, 1)]
        layers += [_Shuffle(width) for _ in range(count)]
        channels = width
    return nn.Sequential(*layers, conv(channels, 1024, 1), *_classified(1024))


class _Fire(nn.Module):
    def __init__(self, cin: int, squeeze: int, expand: int) -> None:
        super().__init__()
        self.squeeze = conv(cin, squeeze, 1)
        self.small, self.large = conv(squeeze, expand, 1), conv(squeeze, expand, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.squeeze(x)
        return torch.cat([self.small(y), self.large(y)], 1)


def squeezenet() -> nn.Module:
    """SqueezeNet 1.1."""
    pool: Callable[[], nn.Module] = lambda: nn.MaxPool2d(3, 2, 1)  # noqa: E731
    return nn.Sequential(
        conv(3, 64, 3, 2), pool(), _Fire(64, 16, 64), _Fire(128, 16, 64), pool(), _Fire(128, 32, 128),
        _Fire(256, 32, 128), pool(), _Fire(256, 48, 192), _Fire(384, 48, 192), _Fire(384, 64, 256),
        _Fire(512, 64, 256), *_classified(512),
    )  # fmt: skip


def resnext() -> nn.Module:
    """Bottlenecks with convolutions of 32 groups: a ResNeXt-26."""
    layers: list[nn.Module] = [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for width, stride in ((256, 1), (512, 2), (1024, 2), (2048, 2)):
        for step in (stride, 1):
            mid = width // 2
            body = nn.Sequential(
                conv(channels, mid, 1), conv(mid, mid, 3, step, groups=32), conv(mid, width, 1, act=None)
            )
            shortcut = conv(channels, width, 1, step, act=None) if step > 1 or channels != width else None
            layers.append(Residual(body, shortcut, "relu"))
            channels = width
    return nn.Sequential(*layers, *_classified(channels))


class _ConvNextBlock(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.mix, self.norm = (
            nn.Conv2d(channels, channels, 7, padding=3, groups=channels),
            nn.LayerNorm(channels),
        )
        self.mlp = nn.Sequential(
            nn.Linear(channels, 4 * channels), nn.GELU(), nn.Linear(4 * channels, channels)
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.mlp(self.norm(self.mix(x).permute(0, 2, 3, 1)))
        return x + y.permute(0, 3, 1, 2)


def convnext() -> nn.Module:
    """ConvNeXt of width 40: depthwise 7x7, layer norms, GELU."""
    layers: list[nn.Module] = [nn.Conv2d(3, 40, 4, 4)]
    channels = 40
    for width, count in ((40, 2), (80, 2), (160, 6), (320, 2)):
        if width != channels:
            layers.append(nn.Conv2d(channels, width, 2, 2))
        layers += [_ConvNextBlock(width) for _ in range(count)]
        channels = width
    return nn.Sequential(*layers, *_classified(channels))


# -- detection, segmentation ---------------------------------------------------------------------------------


class Ssd(nn.Module):
    """Boxes and scores of two scales over a depthwise trunk."""

    def __init__(self) -> None:
        super().__init__()
        trunk = list(mobilenetv1().children())
        self.first, self.second = nn.Sequential(*trunk[:23]), nn.Sequential(*trunk[23:27])
        self.boxes = nn.ModuleList(nn.Conv2d(c, 24, 3, padding=1) for c in (512, 1024))
        self.scores = nn.ModuleList(nn.Conv2d(c, 126, 3, padding=1) for c in (512, 1024))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Maps of both scales."""
        low = self.first(x)
        both = (low, self.second(low))
        return tuple(m(f) for m, f in zip(self.boxes, both)) + tuple(
            torch.sigmoid(m(f)) for m, f in zip(self.scores, both)
        )


class Dilated(nn.Module):
    """Segmentation with dilated convolutions side by side, enlarged bilinearly."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            conv(3, 32, 3, 2), conv(32, 64, 3, 2), conv(64, 128, 3, 2), conv(128, 128, 3)
        )
        self.rates = nn.ModuleList(conv(128, 64, 3, dilation=rate) for rate in (1, 3, 6, 9))
        self.head = nn.Conv2d(256, 21, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Classes per pixel."""
        y = self.trunk(x)
        y = self.head(torch.cat([rate(y) for rate in self.rates], 1))
        return F.interpolate(y, scale_factor=8.0, mode="bilinear", align_corners=False)


# -- text, sound, tiny ones ----------------------------------------------------------------------------------


def encoder() -> nn.Module:
    """Four layers of attention over 128 embedded tokens."""
    return nn.Sequential(*(_TransformerLayer(256, 4) for _ in range(4)), nn.LayerNorm(256))


class Recurrent(nn.Module):
    """Two recurrent layers over frames of sound, and a score per frame."""

    def __init__(self, kind: Any, features: int, hidden: int) -> None:
        super().__init__()
        self.layer = kind(features, hidden, num_layers=2, batch_first=True)
        self.head = nn.Linear(hidden, 32)

    def forward(self, x: Tensor) -> Tensor:
        """One row per frame."""
        return self.head(self.layer(x)[0])


def spotting() -> nn.Module:
    """Keyword spotting on a spectrogram: depthwise, small."""
    layers: list[nn.Module] = [conv(1, 64, 3, 2)]
    for _ in range(4):
        layers += [depthwise(64), conv(64, 64, 1)]
    return nn.Sequential(*layers, *_classified(64, 12))


def digits() -> nn.Module:
    """LeNet's size."""
    return nn.Sequential(
        conv(1, 16, 5), nn.MaxPool2d(2), conv(16, 32, 5), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1568, 10)
    )


def tower() -> nn.Module:
    """A tower of plain 3x3 convolutions, as VGG."""
    layers: list[nn.Module] = []
    channels = 3
    for width in (64, 64, 128, 128, 256, 256, 512, 512):
        layers.append(conv(channels, width, 3))
        if width == channels:
            layers.append(nn.MaxPool2d(2))
        channels = width
    return nn.Sequential(*layers, *_classified(channels))


_GREY = {"mean": ((0.0,),), "std": ((255.0,),)}
_ALL = [
    *(
        Case(build.__name__, build, image(224), TARGETS, calibration_steps=3)
        for build in (mobilenetv1, shufflenetv2, squeezenet, resnext, convnext)
    ),
    Case("tower", tower, image(112), TARGETS, calibration_steps=3),
    Case("ssd_300", Ssd, image(300), TARGETS, calibration_steps=3, samples=4, **ZERO_TO_ONE),
    Case("dilated_256", Dilated, image(256), TARGETS, calibration_steps=3, samples=4, **ZERO_TO_ONE),
    Case("encoder", encoder, (Input((1, 128, 256), "normal"),), TARGETS),
    Case("lstm", lambda: Recurrent(nn.LSTM, 64, 128), (Input((1, 50, 64), "normal"),), TARGETS),
    Case("gru", lambda: Recurrent(nn.GRU, 64, 128), (Input((1, 50, 64), "normal"),), TARGETS),
    Case("spotting", spotting, (Input((1, 1, 49, 40)),), TARGETS, **_GREY),
    Case("digits", digits, (Input((1, 1, 28, 28)),), TARGETS, **_GREY),
]  # fmt: skip
CASES = {case.name: case for case in _ALL}
