"""Bundles: several independent operators on one input, one graph output each."""

from __future__ import annotations

from collections.abc import Callable

import torch
from case import Case, Input
from layers import Branches, Fn, activation
from torch import Tensor, nn
from torch.nn import functional as F

MAIN = ("rk3588.i8", "rk3588.fp16")
Outputs = tuple[Tensor, ...]


def noise(*shape: int) -> Input:
    """An input of independent pixels."""
    return Input(shape, "noise")


def _activations() -> nn.Module:
    names = ("relu", "relu6", "leaky", "prelu", "elu", "sigmoid")
    return Branches(nn.Identity(), *(activation(name, 5) for name in names))


def _pooling() -> nn.Module:
    return Branches(
        nn.Identity(),
        nn.MaxPool2d(2),
        nn.MaxPool2d(3, 2, 1, ceil_mode=True),
        nn.MaxPool2d((2, 3), (1, 2), (0, 1)),
        nn.AvgPool2d(2),
        nn.AvgPool2d(3, 2, 1, count_include_pad=True),
        nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False),
        nn.AdaptiveAvgPool2d(1),
        nn.AdaptiveMaxPool2d(1),
    )


def _channels(x: Tensor) -> Outputs:
    a, b = x.split((7, 13), 1)
    n, c, h, w = (int(v) for v in x.shape)
    shuffled = x.view(n, 4, c // 4, h, w).transpose(1, 2).reshape(n, c, h, w)
    return (
        torch.cat([a * 0.5, b + 2.0, a], 1),
        b.contiguous() * 1.5,
        torch.cat([x[:, :, ::2, 1::2], x[:, :, 1::2, ::2]], 1),
        (x * 0.7)[:, 3:11, 2:7, 1:],  # slices of one tensor along different axes crash the toolkit
        shuffled,
        torch.cat([x, x * 0.25], 2),
    )


def _shapes(x: Tensor) -> Outputs:
    n, c, h, w = (int(v) for v in x.shape)
    return (
        x.reshape(n, c // 2, h * 2, w),
        x.permute(0, 2, 3, 1),
        x.permute(0, 1, 3, 2).flatten(2) * 0.5,
        F.pad(x, (1, 2, 3, 0)),
        F.pad(x, (1, 2, 0, 1), value=0.5),
        F.pad(x, (2, 1, 1, 2), mode="reflect"),
        F.pixel_shuffle(x, 2),
        F.pixel_unshuffle(x, 2),
        x.mean((2, 3), keepdim=True).expand(n, c, 4, 5) + 0.25,
        x.view(n, 2, c // 2, h, w).permute(0, 2, 1, 3, 4).reshape(n, c, h, w) + x,
    )


def _resize(x: Tensor) -> Outputs:
    return (
        F.interpolate(x, scale_factor=2.0, mode="nearest"),
        F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False),
        F.interpolate(x, size=(13, 15), mode="bilinear", align_corners=True),
        F.interpolate(x, size=(12, 9), mode="nearest"),
        F.interpolate(x, scale_factor=(3.0, 1.5), mode="bilinear", align_corners=False),
    )


def _arithmetic(x: Tensor, y: Tensor) -> Outputs:
    row = torch.linspace(-1.0, 1.0, 7).view(1, 1, 1, 7)
    channel = torch.linspace(0.5, 2.0, 8).view(1, 8, 1, 1)
    return (
        x + y,
        x - y,
        x * y,
        x / (y.abs() + 1.0),
        torch.maximum(x, y),
        torch.minimum(x, y * 0.5),
        x + channel,
        x * channel,
        1.0 - x,
        x * row,
        x + row,
        torch.maximum(x, channel - 1.0),
    )


def _mathematics(x: Tensor) -> Outputs:
    return (
        x**2,
        torch.exp(x),
        torch.log(x.abs() + 0.5),
        torch.sqrt(x.abs() + 0.1),
        torch.erf(x),
        torch.sin(x),
        torch.cos(x * 2.0),
        torch.abs(x),
        -x,
        torch.reciprocal(x.abs() + 0.5),
    )


def _rounding(x: Tensor) -> Outputs:
    return (
        torch.where(x > 0.5, x, x * 0.1),
        (x > 0.0).float() * 3.0 + x,
        torch.clamp(x, -1.0, 0.75),
        torch.round(x * 6.0),
        torch.floor(x * 6.0),
        torch.sign(x) + x,
    )


def _norms() -> nn.Module:
    layer = nn.LayerNorm(10)
    group, instance, batch = nn.GroupNorm(3, 12), nn.InstanceNorm2d(12, affine=True), nn.BatchNorm2d(12)
    for norm in (layer, group, instance):
        nn.init.uniform_(norm.weight, 0.5, 1.5)
        nn.init.normal_(norm.bias, 0.0, 0.3)
    normalise = Fn(lambda x: F.normalize(x, dim=1))
    return Branches(nn.Identity(), layer, group, instance, batch, normalise)


def _softmaxes(x: Tensor) -> Outputs:
    return x.softmax(1), (x * 2.0).softmax(3), x.log_softmax(1), x.flatten(1).softmax(1)


def _reductions(x: Tensor) -> Outputs:
    return (
        x.mean((2, 3)),
        x.mean(1, keepdim=True),
        x.sum(1, keepdim=True),
        x.amax(1, keepdim=True),
        x.amin(3, keepdim=True),
        x.sum((2, 3), keepdim=True),
        (x * x).mean(3),
    )


def _ranking(x: Tensor) -> Outputs:
    values, indices = x.flatten(2).topk(5, 2)
    return x.argmax(1), values, indices


def _products(x: Tensor, y: Tensor) -> Outputs:
    return x @ y.transpose(1, 2), (x * 0.5) @ x.transpose(1, 2), (x @ y.transpose(1, 2)).softmax(2) @ y


def _product_tails(x: Tensor, y: Tensor) -> Outputs:
    """Products that are scaled, and ones that a constant is added to."""
    return (
        (x @ y.transpose(1, 2)) * 0.3,
        (x * 0.5) @ y.transpose(1, 2) - 0.7,
        (x * x) @ y.transpose(1, 2) + x[:, :, :1],
    )


def _dense() -> nn.Module:
    narrow = nn.Sequential(nn.Linear(20, 33), nn.ReLU(), nn.Linear(33, 7))
    return Branches(
        nn.Identity(), narrow, nn.Linear(20, 12, bias=False), nn.Sequential(nn.Linear(20, 40), nn.Tanh())
    )


class _Attention(nn.Module):
    def __init__(self, dim: int, heads: int, masked: bool) -> None:
        super().__init__()
        self.heads, self.masked = heads, masked
        self.q, self.k, self.v, self.out = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        n, t, d = (int(v) for v in x.shape)
        q, k, v = (
            f(x).view(n, t, self.heads, d // self.heads).transpose(1, 2) for f in (self.q, self.k, self.v)
        )
        scores = q * 3.0 @ k.transpose(2, 3) / (d // self.heads) ** 0.5
        if self.masked:
            scores = scores + torch.linspace(-3.0, 0.0, t).view(1, 1, 1, t)
        return x + self.out((scores.softmax(3) @ v).transpose(1, 2).reshape(n, t, d))


class _Recurrent(nn.Module):
    def __init__(self, cell: type[nn.Module], hidden: int, bidirectional: bool) -> None:
        super().__init__()
        self.cell = cell(20, hidden, bidirectional=bidirectional)
        for weight in self.cell.parameters():
            nn.init.uniform_(weight, -0.5, 0.5)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.cell(x)[0]
        return y


def _embedding() -> nn.Module:
    table = nn.Embedding(20, 12)
    return Fn(lambda m, ids: (m["table"](ids), m["out"](m["table"](ids))), table=table, out=nn.Linear(12, 9))


def _sampling(x: Tensor, grid: Tensor) -> Outputs:
    return (
        F.grid_sample(x, grid * 0.7, mode="nearest", align_corners=False),
        F.grid_sample(x, grid * 0.7, mode="nearest", padding_mode="border", align_corners=True),
    )


def cases() -> list[Case]:
    """All bundles."""
    sequence = (Input((2, 1, 20), "normal"),)
    tokens = (Input((1, 10, 24), "normal"),)
    pair = (Input((1, 9, 16), "normal"), Input((1, 11, 16), "normal"))
    full, thin = noise(1, 8, 5, 7), noise(1, 8, 1, 1)
    grid = Input((1, 6, 7, 2), "normal")

    def function(run: Callable[..., Outputs]) -> Callable[[], nn.Module]:
        return lambda: Fn(run)

    def lstm(hidden: int, both: bool) -> Callable[[], nn.Module]:
        return lambda: _Recurrent(nn.LSTM, hidden, both)

    def gru(hidden: int, both: bool) -> Callable[[], nn.Module]:
        return lambda: _Recurrent(nn.GRU, hidden, both)

    pools = ("rk3588.i8", "rk3588.fp16", "rk3562.i8", "rk3576.i8")
    return [
        Case("acts_alone", _activations, (noise(1, 5, 6, 7),), ("rk3588.i8",)),
        Case("pooling", _pooling, (Input((1, 12, 11, 9)),), pools),
        Case("channels", function(_channels), (noise(1, 20, 8, 6),), ("rk3588.i8", "rk3562.fp16")),
        Case("shapes", function(_shapes), (noise(1, 8, 6, 8),), ("rk3588.i8", "rk3562.fp16")),
        Case("resize", function(_resize), (noise(1, 5, 6, 7),), ("rk3588.i8", "rk3568.fp16")),
        Case("arithmetic", function(_arithmetic), (full, full), ("rk3588.i8",)),
        Case("broadcast", function(_arithmetic), (full, thin), ("rk3588.fp16",)),
        Case("mathematics", function(_mathematics), (noise(1, 5, 7, 9),), ("rk3588.i8", "rk3568.fp16")),
        Case("rounding", function(_rounding), (noise(1, 5, 7, 9),), ("rk3588.i8",)),
        Case("norms", _norms, (noise(1, 12, 5, 10),), ("rk3588.i8",)),
        Case(
            "softmaxes",
            function(_softmaxes),
            (noise(1, 12, 5, 7),),
            ("rk3588.i8", "rk3568.i8"),
        ),
        Case("reductions", function(_reductions), (noise(1, 10, 6, 9),), ("rk3588.i8",)),
        Case("ranking", function(_ranking), (noise(1, 10, 4, 9),), ("rk3588.fp16", "rk3576.i8")),
        Case("products", function(_products), pair, ("rk3588.i8", "rk3562.fp16")),
        Case("product_tails", function(_product_tails), pair, ("rk3588.i8",), seed=6),
        Case("dense", _dense, (Input((1, 20), "normal"),), ("rk3588.i8", "rk3568.fp16")),
        Case("dense_rows", _dense, (Input((6, 20), "normal"),), ("rk3588.fp16",)),
        Case("attention", lambda: _Attention(24, 3, False), tokens, ("rk3588.i8", "rk3562.fp16")),
        Case("attention_mask", lambda: _Attention(24, 2, True), tokens, ("rk3588.fp16",)),
        Case("lstm", lstm(16, False), sequence, ("rk3588.fp16",)),
        Case("lstm_bidirectional", lstm(13, True), sequence, ("rk3562.i8",)),
        Case("gru", gru(13, False), sequence, ("rk3568.fp16",)),
        Case("embedding", _embedding, (Input((1, 9), "ids", 20),), ("rk3588.fp16", "rk3588.i8")),
        Case("sampling", function(_sampling), (noise(1, 5, 8, 8), grid), ("rk3588.fp16",)),
    ]
