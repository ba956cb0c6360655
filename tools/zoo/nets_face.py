"""Faces: detection, landmarks, embeddings."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from network import image, network
from torch import nn

_HALVES: dict[str, Any] = {"mean": (127.5,), "std": (128.0,)}


def _conv(
    inputs: int, outputs: int, kernel: int = 3, stride: int = 1, groups: int = 1, act: Any = nn.ReLU
) -> nn.Sequential:
    layers: list[nn.Module] = [
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    if act is not None:
        layers.append(act(outputs) if act is nn.PReLU else act())
    return nn.Sequential(*layers)


def _separable(inputs: int, outputs: int, stride: int = 1, act: Any = nn.ReLU) -> nn.Sequential:
    return nn.Sequential(_conv(inputs, inputs, 3, stride, inputs, act), _conv(inputs, outputs, 1, act=act))


def _leaky() -> nn.Module:
    return nn.LeakyReLU(0.1)


class Ssh(nn.Module):
    """Context of three sizes."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        half, quarter = channels // 2, channels // 4
        self.small = _conv(channels, half, act=None)
        self.shared = _conv(channels, quarter, act=_leaky)
        self.middle, self.pre = _conv(quarter, quarter, act=None), _conv(quarter, quarter, act=_leaky)
        self.large = _conv(quarter, quarter, act=None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Concatenated."""
        shared = self.shared(x)
        return F.relu(torch.cat((self.small(x), self.middle(shared), self.large(self.pre(shared))), 1))


class RetinaFace(nn.Module):
    """MobileNet at a quarter of its width, feature pyramid, SSH, three heads."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Sequential(
            _conv(3, 8, 3, 2, act=_leaky), _separable(8, 16, 2, _leaky), _separable(16, 32, 2, _leaky)
        )
        self.two = nn.Sequential(_separable(32, 64, 2, _leaky), _separable(64, 64, 1, _leaky))
        self.three = _separable(64, 128, 2, _leaky)
        self.sides = nn.ModuleList(_conv(c, 32, 1, act=_leaky) for c in (32, 64, 128))
        self.merges = nn.ModuleList(_conv(32, 32, act=_leaky) for _ in range(2))
        self.ssh = nn.ModuleList(Ssh(32) for _ in range(3))
        self.heads = nn.ModuleList(
            nn.ModuleList(nn.Conv2d(32, 2 * n, 1) for n in (4, 2, 10)) for _ in range(3)
        )

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        """Boxes, scores, landmarks of all levels."""
        one = self.one(x)
        two = self.two(one)
        levels = [side(f) for side, f in zip(self.sides, (one, two, self.three(two)), strict=True)]
        levels[1] = self.merges[1](levels[1] + F.interpolate(levels[2], size=levels[1].shape[2:]))
        levels[0] = self.merges[0](levels[0] + F.interpolate(levels[1], size=levels[0].shape[2:]))
        levels = [ssh(f) for ssh, f in zip(self.ssh, levels, strict=True)]
        found = []
        for kind, size in enumerate((4, 2, 10)):
            maps = [
                heads[kind](f).permute(0, 2, 3, 1).reshape(1, -1, size)
                for heads, f in zip(self.heads, levels, strict=True)
            ]
            found.append(torch.cat(maps, 1))
        return [found[0], found[1].softmax(-1), found[2]]


@network("retinaface_mnet", image(128), opset=11, mean=(104.0, 117.0, 123.0), std=(1.0,))
def _retinaface() -> Any:
    return RetinaFace()


class Scrfd(nn.Module):
    """Residual body, path aggregation, shared heads with group norm and a learned scale."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(_conv(3, 16, 3, 2), _conv(16, 24), nn.MaxPool2d(2, 2))
        self.one, self.two = _conv(24, 32, 3, 2), _conv(32, 48, 3, 2)
        self.sides = nn.ModuleList([nn.Conv2d(32, 24, 1), nn.Conv2d(48, 24, 1)])
        self.down = nn.Conv2d(24, 24, 3, 2, 1)
        self.tower = nn.Sequential(nn.Conv2d(24, 32, 3, 1, 1, bias=False), nn.GroupNorm(8, 32), nn.ReLU())
        self.score, self.box, self.points = (nn.Conv2d(32, 2 * n, 3, 1, 1) for n in (1, 4, 10))
        self.scale = nn.Parameter(torch.tensor(1.3))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        """Score, box and landmarks of each level."""
        one = self.one(self.stem(x))
        fine, coarse = self.sides[0](one), self.sides[1](self.two(one))
        fine = fine + F.interpolate(coarse, scale_factor=2.0, mode="nearest")
        coarse = coarse + self.down(fine)
        found = []
        for level in map(self.tower, (fine, coarse)):
            for part, size in (
                (self.score(level).sigmoid(), 1),
                (self.box(level) * self.scale, 4),
                (self.points(level), 10),
            ):
                found.append(part.permute(0, 2, 3, 1).reshape(-1, size))
        return found


@network("scrfd", image(128), opset=11, **_HALVES)
def _scrfd() -> Any:
    return Scrfd()


class YuNet(nn.Module):
    """Pointwise before depthwise, nearest upsampling, heads of 1 to 10 channels."""

    def __init__(self) -> None:
        super().__init__()

        def unit(inputs: int, outputs: int, act: bool = True) -> nn.Sequential:
            layers: list[nn.Module] = [
                nn.Conv2d(inputs, outputs, 1),
                nn.Conv2d(outputs, outputs, 3, 1, 1, groups=outputs),
            ]
            return (
                nn.Sequential(*layers, nn.BatchNorm2d(outputs), nn.ReLU()) if act else nn.Sequential(*layers)
            )

        self.stem = nn.Sequential(
            _conv(3, 16, 3, 2), unit(16, 16), nn.MaxPool2d(2), unit(16, 32), unit(32, 32)
        )
        self.one = nn.Sequential(nn.MaxPool2d(2), unit(32, 32))
        self.two = nn.Sequential(nn.MaxPool2d(2), unit(32, 32))
        self.merge = unit(32, 32)
        self.heads = nn.ModuleList(nn.ModuleList(unit(32, n, False) for n in (1, 1, 4, 10)) for _ in range(2))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        """Class, objectness, box, landmarks of two levels."""
        one = self.one(self.stem(x))
        two = self.two(one)
        levels = (self.merge(one + F.interpolate(two, scale_factor=2.0, mode="nearest")), two)
        found = []
        for heads, level in zip(self.heads, levels, strict=True):
            for place, head in enumerate(heads):
                flat = head(level).permute(0, 2, 3, 1).flatten(1, 2)
                found.append(flat.sigmoid() if place < 2 else flat)
        return found


@network("yunet", image(128), opset=11, mean=(0.0,), std=(1.0,))
def _yunet() -> Any:
    return YuNet()


class Unit(nn.Module):
    """Inverted bottleneck with PReLU, linear at the end."""

    def __init__(self, channels: int, inner: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            _conv(channels, inner, 1, act=nn.PReLU),
            _conv(inner, inner, 3, stride, inner, nn.PReLU),
            _conv(inner, outputs, 1, act=None),
        )
        self.same = stride == 1 and channels == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """With a shortcut where sizes allow."""
        return x + self.body(x) if self.same else self.body(x)


def _mobile_face(normalise: bool) -> nn.Module:
    class Net(nn.Sequential):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = super().forward(x)
            return F.normalize(x, dim=1) if normalise else x

    return Net(
        _conv(3, 32, 3, 2, act=nn.PReLU), _conv(32, 32, 3, 1, 32, nn.PReLU),
        Unit(32, 64, 32, 2), Unit(32, 64, 32, 1), Unit(32, 64, 48, 2), Unit(48, 96, 48, 1), Unit(48, 96, 48, 2),
        _conv(48, 96, 1, act=nn.PReLU), nn.Conv2d(96, 96, 7, groups=96, bias=False), nn.BatchNorm2d(96),
        nn.Conv2d(96, 64, 1, bias=False), nn.BatchNorm2d(64), nn.Flatten(),
    )  # fmt: skip


@network("mobilefacenet", image(112), opset=12, **_HALVES)
def _mobilefacenet() -> Any:
    return _mobile_face(False)


@network("mobilefacenet_normalised", image(112), opset=14, **_HALVES)
def _mobilefacenet_normalised() -> Any:
    return _mobile_face(True)


@network("mobilefacenet_normalised_dynamo", image(112), dynamo=True, **_HALVES)
def _mobilefacenet_dynamo() -> Any:
    return _mobile_face(True)


class Residual(nn.Module):
    """ArcFace's block: batch norm first, PReLU inside."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(inputs), nn.Conv2d(inputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs),
            nn.PReLU(outputs), nn.Conv2d(outputs, outputs, 3, 2, 1, bias=False), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        self.side = nn.Sequential(nn.Conv2d(inputs, outputs, 1, 2, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Halves the size."""
        return self.body(x) + self.side(x)


@network("arcface_iresnet", image(112), opset=11, **_HALVES)
def _arcface() -> Any:
    return nn.Sequential(
        _conv(3, 16, act=nn.PReLU), Residual(16, 24), Residual(24, 32), Residual(32, 48), Residual(48, 64),
        nn.BatchNorm2d(64), nn.Flatten(), nn.Linear(64 * 49, 128), nn.BatchNorm1d(128),
    )  # fmt: skip


@network("pfld", image(112), opset=11, mean=(0.0,), std=(255.0,))
def _pfld() -> Any:
    class Pfld(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Sequential(_conv(3, 16, 3, 2), _separable(16, 24, 2), _separable(24, 32, 2))
            self.two, self.three = _separable(32, 48, 2), nn.Sequential(nn.Conv2d(48, 64, 7), nn.ReLU())
            self.out = nn.Linear(32 + 48 + 64, 196)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x1 = self.one(x)
            x2 = self.two(x1)
            x3 = self.three(x2)
            pooled = [F.avg_pool2d(x1, 14).flatten(1), F.avg_pool2d(x2, 7).flatten(1), x3.flatten(1)]
            return self.out(torch.cat(pooled, 1))

    return Pfld()


@network("blazeface", image(128), opset=12, mean=(127.5,), std=(127.5,))
def _blazeface() -> Any:
    class Blaze(nn.Module):
        """Asymmetric padding, shortcuts by pooling and channel padding."""

        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.stride, self.more = stride, outputs - inputs
            self.depth = nn.Conv2d(
                inputs, inputs, 3 if stride == 2 else 5, stride, 0 if stride == 2 else 2, groups=inputs
            )
            self.point = nn.Conv2d(inputs, outputs, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            short = F.max_pool2d(x, 2) if self.stride == 2 else x
            short = F.pad(short, (0, 0, 0, 0, 0, self.more)) if self.more else short
            inner = F.pad(x, (0, 1, 0, 1)) if self.stride == 2 else x
            return F.relu(self.point(self.depth(inner)) + short)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Conv2d(3, 24, 5, 2)
            self.body = nn.Sequential(Blaze(24, 24, 1), Blaze(24, 32, 2), Blaze(32, 48, 2), Blaze(48, 48, 1))
            self.score, self.box = nn.Conv2d(48, 2, 1), nn.Conv2d(48, 32, 1)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            x = self.body(F.relu(self.stem(F.pad(x, (1, 2, 1, 2)))))
            score = self.score(x).permute(0, 2, 3, 1).reshape(1, -1, 1)
            return score, self.box(x).permute(0, 2, 3, 1).reshape(1, -1, 16)

    return Net()
