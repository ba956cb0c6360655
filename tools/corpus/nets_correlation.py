"""One picture is the kernel for another (trackers), and products with constants of as many items as there are heads."""

from __future__ import annotations

import torch
from case import Case, Input
from layers import Fn, conv
from torch import Tensor, nn
from torch.nn import functional as F

_SEARCH = Input((1, 3, 24, 20))


def _features(channels: int) -> nn.Module:
    return nn.Sequential(conv(3, channels, 3, 2), nn.Conv2d(channels, channels, 3, padding=1))


def _depthwise(channels: int) -> nn.Module:
    """Each channel of the template over its own of the search picture, and two heads."""

    def run(m: nn.ModuleDict, z: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        kernel, picture = m["features"](z), m["features"](x)
        n, c, h, w = (int(v) for v in kernel.shape)
        # items of a batch lie side by side, so that each has its own template
        y = F.conv2d(picture.flatten(0, 1)[None], kernel.view(n * c, 1, h, w), groups=n * c)
        y = y.view(n, c, int(y.shape[2]), int(y.shape[3]))
        return y, m["score"](torch.relu(y))

    return Fn(run, features=_features(channels), score=nn.Conv2d(channels, 2, 1))


def _dense() -> nn.Module:
    """A template for each result, with padding and stride; one picture as a kernel, behind which an activation is fused."""

    def run(m: nn.ModuleDict, z: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        kernels, picture = m["features"](z), m["features"](x)
        return F.conv2d(picture, kernels, padding=1, stride=2), torch.relu(F.conv2d(picture, kernels[:1]))

    return Fn(run, features=_features(12))


class _Heads(nn.Module):
    """Products with a constant of each head's own: as first and as second factor, with what follows them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.randn(4, 20, 12))
        self.second = nn.Parameter(torch.randn(4, 12, 33) + 0.3)
        self.offset = nn.Parameter(torch.randn(4, 20, 1))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = x.transpose(1, 2)
        return self.first @ y, x @ self.second, self.first @ y + self.offset, (x @ self.second) * 0.25


class _Disentangled(nn.Module):
    """Attention that adds products with a constant matrix of relative places, as DeBERTa's does."""

    def __init__(self, heads: int, width: int, tokens: int) -> None:
        super().__init__()
        self.heads, self.width = heads, width
        self.q, self.k, self.v, self.out = (nn.Linear(heads * width, heads * width) for _ in range(4))
        self.places = nn.Parameter(torch.randn(heads, 2 * tokens, width) * 0.5)
        distance = torch.arange(tokens)[:, None] - torch.arange(tokens)[None, :]
        self.register_buffer("index", (distance + tokens)[None].expand(heads, tokens, tokens).clone())

    def forward(self, x: Tensor) -> Tensor:
        tokens = int(x.shape[1])
        q, k, v = (
            f(x).view(tokens, self.heads, self.width).transpose(0, 1) for f in (self.q, self.k, self.v)
        )
        near = torch.gather(q @ self.places.transpose(1, 2), 2, self.index)  # type: ignore[arg-type]
        scores = (q @ k.transpose(1, 2) + near) / self.width**0.5
        y = (scores.softmax(2) @ v).transpose(0, 1).reshape(1, tokens, self.heads * self.width)
        return x + self.out(y)


def cases() -> list[Case]:
    """All of them, each for two SoCs and both types."""
    template, vectors = Input((1, 3, 8, 8)), (Input((4, 14, 12), "normal"),)
    main = ("rk3588.i8", "rk3588.fp16", "rk3576.i8", "rk3576.fp16")
    batch = (Input((3, 3, 8, 8)), Input((3, 3, 24, 20)))
    return [
        Case("xcorr_depthwise", lambda: _depthwise(20), (template, _SEARCH), (*main, "rv1106.i8")),
        Case("xcorr_dense", _dense, (Input((5, 3, 6, 6)), _SEARCH), main),
        Case("xcorr_batch", lambda: _depthwise(8), batch, ("rk3588.i8", "rk3588.fp16", "rk3562.i8")),
        Case("products_stored", _Heads, vectors, (*main, "rv1103b.i8")),
        Case("disentangled", lambda: _Disentangled(2, 12, 6), (Input((1, 6, 24), "normal"),), main[:2]),
    ]
