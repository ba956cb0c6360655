"""Small whole networks in the manner of well-known architectures: classifiers, embeddings, restoration."""

from __future__ import annotations

import torch
from case import FAMILIES, Case, Input
from layers import Residual, SqueezeExcite, conv, deconv, depthwise
from torch import Tensor, nn
from torch.nn import functional as F

INT8 = tuple(f"{soc}.i8" for soc in FAMILIES)


def noise(size: int) -> tuple[Input, ...]:
    """One white-noise input: random kernels amplify smooth pictures' rounding errors more than the pictures."""
    return (Input((1, 3, size, size), "noise"),)


def image(size: int, channels: int = 3) -> tuple[Input, ...]:
    """One square image."""
    return (Input((1, channels, size, size)),)


def _basic(cin: int, cout: int, s: int = 1) -> nn.Module:
    body = nn.Sequential(conv(cin, cout, 3, s), conv(cout, cout, 3, act=None))
    shortcut = conv(cin, cout, 1, s, act=None) if s > 1 or cin != cout else None
    return Residual(body, shortcut, "relu")


def resnet() -> nn.Module:
    """ResNet: 7x7 stem, max pooling, basic blocks, global pooling, classifier."""
    return nn.Sequential(
        conv(3, 12, 7, 2),
        nn.MaxPool2d(3, 2, 1),
        _basic(12, 12),
        _basic(12, 20, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(20, 30),
    )


def _inverted(
    cin: int, cout: int, s: int, expand: int, k: int = 3, act: str = "relu6", se: int = 0
) -> nn.Module:
    mid = cin * expand
    layers: list[nn.Module] = [conv(cin, mid, 1, act=act)] if expand > 1 else []
    layers.append(depthwise(mid, k, s, act))
    if se:
        layers.append(SqueezeExcite(mid, se))
    layers.append(conv(mid, cout, 1, act=None))
    body = nn.Sequential(*layers)
    return Residual(body) if s == 1 and cin == cout else body


def mobilenetv2() -> nn.Module:
    """MobileNetV2: inverted residuals with relu6."""
    return nn.Sequential(
        conv(3, 8, 3, 2, "relu6"),
        _inverted(8, 8, 1, 1),
        _inverted(8, 12, 2, 4),
        _inverted(12, 12, 1, 4),
        conv(12, 40, 1, act="relu6"),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(40, 35),
    )


def mobilenetv3() -> nn.Module:
    """MobileNetV3: hardswish, squeeze-excite, 5x5 depthwise, softmax."""
    return nn.Sequential(
        conv(3, 8, 3, 2, "relu"),
        _inverted(8, 8, 2, 1, 3, "relu", 8),
        _inverted(8, 12, 2, 3, 5, "hardswish"),
        conv(12, 40, 1, act="relu"),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(40, 20),
        nn.Softmax(1),
    )


class _UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down, self.bottom, self.up = conv(3, 8, 3), conv(8, 16, 3), deconv(16, 8, 2, 2, 0)
        self.merge, self.head, self.side = conv(16, 8, 3), nn.Conv2d(8, 3, 1), nn.Conv2d(16, 2, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a = self.down(x)
        b = self.bottom(F.max_pool2d(a, 2))
        y = self.merge(torch.cat([self.up(b), a], 1))
        side = F.interpolate(self.side(b), scale_factor=2.0, mode="bilinear", align_corners=False)
        return torch.sigmoid(self.head(y)), side


class _Attention(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        n, t, d = x.shape
        qkv = self.qkv(x).reshape(n, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2])
        return self.out(y.transpose(1, 2).reshape(n, t, d))


class _TransformerLayer(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2, self.attention = nn.LayerNorm(dim), nn.LayerNorm(dim), _Attention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        for norm in (self.norm1, self.norm2):
            nn.init.uniform_(norm.weight, 0.6, 1.4)
            nn.init.normal_(norm.bias, 0.0, 0.2)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    """Patch embedding, class token, position embedding, pre-norm layers, linear head."""

    def __init__(self, size: int, patch: int, dim: int, heads: int, depth: int, classes: int) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, dim, patch, patch)
        self.token = nn.Parameter(torch.randn(1, 1, dim) * 0.5)
        self.position = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, dim) * 0.5)
        self.layers = nn.Sequential(*(_TransformerLayer(dim, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Class logits."""
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.position
        return self.head(self.norm(self.layers(x))[:, 0])


def face_block(cin: int, cout: int, s: int) -> nn.Module:
    """IResNet block: bn, conv, bn, prelu, conv, bn plus shortcut."""
    body = nn.Sequential(
        nn.BatchNorm2d(cin), conv(cin, cout, 3, act="prelu"), conv(cout, cout, 3, s, act=None)
    )
    return Residual(body, conv(cin, cout, 1, s, act=None) if s > 1 or cin != cout else None)


def iresnet(widths: tuple[int, ...], final: int, features: int) -> nn.Module:
    """Face embedding: PReLU residual blocks, batch norm, linear, batch norm."""
    layers: list[nn.Module] = [conv(3, widths[0], 3, act="prelu")]
    for cin, cout in zip(widths, widths[1:], strict=False):
        layers.append(face_block(cin, cout, 2))
    layers += [nn.BatchNorm2d(widths[-1]), nn.Flatten(), nn.Linear(widths[-1] * final**2, features)]
    return nn.Sequential(*layers, nn.Unflatten(1, (features, 1, 1)), nn.BatchNorm2d(features), nn.Flatten())


def espcn(factor: int, channels: int = 3) -> nn.Module:
    """Super resolution: three convolutions and a pixel shuffle."""
    return nn.Sequential(
        conv(channels, 16, 5, act="tanh"),
        conv(16, 12, 3, act="relu"),
        nn.Conv2d(12, channels * factor**2, 3, padding=1),
        nn.PixelShuffle(factor),
    )


def _mnist() -> nn.Module:
    """LeNet on a grey image."""
    return nn.Sequential(
        conv(1, 6, 5, padding=0),
        nn.AvgPool2d(2),
        conv(6, 16, 5, padding=0),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(256, 40),
        nn.Tanh(),
        nn.Linear(40, 10),
        nn.Softmax(1),
    )


def _wake_word() -> nn.Module:
    """One-dimensional convolutions on a feature sequence."""
    return nn.Sequential(
        nn.Conv1d(20, 24, 5, padding=2),
        nn.BatchNorm1d(24),
        nn.ReLU(),
        nn.Conv1d(24, 24, 3, 2, 1, groups=24),
        nn.BatchNorm1d(24),
        nn.ReLU(),
        nn.Conv1d(24, 16, 1),
        nn.BatchNorm1d(16),
        nn.ReLU(),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Linear(16, 12),
    )


def cases() -> list[Case]:
    """All whole networks of this module."""
    return [
        Case("resnet_like", resnet, image(40), (*INT8, "rk3588.fp16")),
        Case("mobilenetv2_like", mobilenetv2, image(40), (*INT8, "rk3588.fp16")),
        Case("mobilenetv3_like", mobilenetv3, image(32), ("rk3588.i8", "rk3568.i8", "rk3562.i8")),
        Case("unet_like", _UNet, noise(16), ("rk3588.i8", "rk3568.i8", "rk3562.i8")),
        Case(
            "vit_like",
            lambda: VisionTransformer(18, 6, 20, 2, 1, 10),
            image(18),
            ("rk3588.i8", "rk3568.i8", "rk3588.fp16"),
            seed=2,
        ),
        Case(
            "iresnet_like",
            lambda: iresnet((8, 12), 10, 20),
            image(20),
            ("rk3588.i8", "rk3562.i8"),
            seed=2,
        ),
        Case(
            "espcn_like", lambda: espcn(2), (Input((1, 3, 20, 28)),), ("rk3588.i8", "rk3562.i8", "rv1126b.i8")
        ),
        Case("lenet_like", _mnist, image(28, 1), ("rk3566.i8",)),
        Case("wake_word_like", _wake_word, (Input((1, 20, 40), "normal"),), ("rk3588.i8",)),
    ]
