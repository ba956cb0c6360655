"""Small networks trained here in seconds, on data that packages ship: their values are distributed as in real ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from network import image, network, signal
from torch import nn

_UNIT: dict[str, Any] = {"mean": (0.0,), "std": (255.0,), "trained": True}


def _fit(net: nn.Module, batch: Any, loss: Any, steps: int, rate: float = 3e-3) -> nn.Module:
    """Adam on what ``batch`` draws."""
    net.train()
    best = torch.optim.Adam(net.parameters(), rate)
    with torch.enable_grad():
        for _ in range(steps):
            x, wanted = batch()
            best.zero_grad()
            loss(net(x), wanted).backward()
            best.step()
    return net.eval()


def _conv(
    inputs: int, outputs: int, stride: int = 1, groups: int = 1, act: nn.Module | None = None
) -> nn.Sequential:
    conv = nn.Conv2d(inputs, outputs, 3, stride, 1, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), act or nn.ReLU())


def _patches(count: int, size: int, channels: int = 3) -> torch.Tensor:
    """Patches of photographs in [0, 1]."""
    from network import Feed
    from samples import draw

    feed = (Feed((count, channels, size, size)),)
    return (
        torch.from_numpy(draw("training", feed, f"{np.random.default_rng().integers(1 << 30)}")[0]).float()
        / 255
    )


def _digits(size: int) -> Any:
    """Batches of handwritten digits, three equal channels."""
    from sklearn.datasets import load_digits

    found = load_digits()
    pictures = torch.from_numpy(found.images).float()[:, None] / 16
    pictures = F.interpolate(pictures, size=(size, size), mode="bilinear").expand(-1, 3, -1, -1)
    labels = torch.from_numpy(found.target)

    def batch() -> tuple[torch.Tensor, torch.Tensor]:
        chosen = torch.randint(len(labels), (48,))
        return pictures[chosen] * (0.6 + 0.4 * torch.rand(48, 1, 1, 1)), labels[chosen]

    return batch


class Res(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            _conv(size, size), nn.Conv2d(size, size, 3, 1, 1, bias=False), nn.BatchNorm2d(size)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Residual."""
        return F.relu(x + self.body(x))


def _tail(size: int) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(size, 10)]


@network("digits_resnet", image(32), opset=12, **_UNIT)
def _digits_resnet() -> Any:
    net = nn.Sequential(_conv(3, 16), Res(16), _conv(16, 32, 2), Res(32), _conv(32, 48, 2), *_tail(48))
    return _fit(net, _digits(32), F.cross_entropy, 150)


@network("digits_mobilenet", image(32), opset=13, **_UNIT)
def _digits_mobilenet() -> Any:
    six, swish = nn.ReLU6(), nn.Hardswish()
    body = [
        _conv(3, 16, 2, act=swish),
        _conv(16, 16, 1, 16, six),
        nn.Conv2d(16, 32, 1),
        nn.BatchNorm2d(32),
        six,
    ]
    body += [_conv(32, 32, 2, 32, swish), nn.Conv2d(32, 48, 1), nn.BatchNorm2d(48), nn.Hardswish()]
    return _fit(nn.Sequential(*body, *_tail(48)), _digits(32), F.cross_entropy, 200)


@network("digits_silu", image(32), opset=17, **_UNIT)
def _digits_silu() -> Any:
    body = [
        _conv(3, 16, 1, act=nn.SiLU()),
        _conv(16, 32, 2, act=nn.GELU()),
        _conv(32, 32, 2, act=nn.LeakyReLU(0.1)),
    ]
    return _fit(nn.Sequential(*body, *_tail(32)), _digits(32), F.cross_entropy, 200)


@network("digits_prelu", image(32), opset=11, **_UNIT)
def _digits_prelu() -> Any:
    body = [
        _conv(3, 16, 1, act=nn.PReLU()),
        _conv(16, 32, 2, act=nn.PReLU(32)),
        _conv(32, 32, 2, act=nn.ELU()),
    ]
    return _fit(nn.Sequential(*body, *_tail(32)), _digits(32), F.cross_entropy, 200)


class Patches(nn.Module):
    """A small vision transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.place = nn.Conv2d(3, 48, 8, 8), nn.Parameter(torch.randn(1, 16, 48) * 0.1)
        layer = nn.TransformerEncoderLayer(48, 4, 96, 0.0, "gelu", batch_first=True, norm_first=True)
        self.body, self.out = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(48, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits."""
        return self.out(self.body(self.patch(x).flatten(2).transpose(1, 2) + self.place).mean(1))


@network("digits_vit", image(32), opset=17, **_UNIT)
def _digits_vit() -> Any:
    torch.backends.mha.set_fastpath_enabled(False)
    return _fit(Patches(), _digits(32), F.cross_entropy, 300, 1e-3)


@network("denoise_unet", image(64), opset=12, **_UNIT)
def _denoise() -> Any:
    class Unet(nn.Module):
        """One level down, transposed convolution up, residual."""

        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = _conv(3, 16), _conv(16, 32, 2), _conv(32, 16)
            self.up, self.out = nn.ConvTranspose2d(32, 16, 2, 2), nn.Conv2d(16, 3, 3, 1, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            a = self.a(x)
            return x + self.out(self.c(torch.cat((a, self.up(self.b(a))), 1)))

    def batch() -> tuple[torch.Tensor, torch.Tensor]:
        clean = _patches(8, 48)
        return (clean + 0.1 * torch.randn_like(clean)).clamp(0, 1), clean

    return _fit(Unet(), batch, F.mse_loss, 120)


@network("enlarge_x2", image(48), opset=13, **_UNIT)
def _enlarge() -> Any:
    body = [nn.Conv2d(3, 24, 5, 1, 2), nn.PReLU(24), nn.Conv2d(24, 24, 3, 1, 1), nn.PReLU(24)]

    def batch() -> tuple[torch.Tensor, torch.Tensor]:
        large = _patches(8, 64)
        return F.avg_pool2d(large, 2), large

    net = nn.Sequential(*body, nn.Conv2d(24, 12, 3, 1, 1), nn.PixelShuffle(2))
    return _fit(net, batch, F.mse_loss, 150)


@network("brightness_map", image(64), opset=14, **_UNIT)
def _brightness() -> Any:
    """A map of one channel: how much brighter a pixel is than its surroundings."""
    net = nn.Sequential(_conv(3, 16, 2), _conv(16, 16, act=nn.Hardswish()), nn.Conv2d(16, 1, 1), nn.Sigmoid())

    def batch() -> tuple[torch.Tensor, torch.Tensor]:
        x = _patches(8, 64)
        luma = F.avg_pool2d(x.mean(1, keepdim=True), 2)
        return x, (luma > F.avg_pool2d(luma, 9, 1, 4)).float()

    return _fit(net, batch, F.binary_cross_entropy, 150)


@network("tones_gru", signal(1, 32, 16), opset=15, trained=True)
def _tones() -> Any:
    class Tones(nn.Module):
        """Which of four frequencies a sequence holds."""

        def __init__(self) -> None:
            super().__init__()
            self.gru, self.out = nn.GRU(16, 32, batch_first=True), nn.Linear(32, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.out(self.gru(x)[0][:, -1])

    def batch() -> tuple[torch.Tensor, torch.Tensor]:
        kind = torch.randint(4, (32,))
        time = torch.arange(512).float() / 512
        wave = torch.sin(2 * torch.pi * (20.0 * (kind[:, None] + 1) * time + torch.rand(32, 1)))
        return (wave + 0.3 * torch.randn_like(wave)).view(32, 32, 16), kind

    return _fit(Tones(), batch, F.cross_entropy, 120)
