"""Sound: what the converter gets wrong of it, kernels too large for registers and LSTMs beside a skipped path."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from network import network, signal
from torch import nn


class QuartzBlock(nn.Module):
    """Depthwise and pointwise convolution over time, twice, and a skipped path."""

    def __init__(self, inputs: int, outputs: int, kernel: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for size in (inputs, outputs):
            deep = nn.Conv1d(size, size, kernel, padding=kernel // 2, groups=size, bias=False)
            layers += [deep, nn.Conv1d(size, outputs, 1, bias=False), nn.BatchNorm1d(outputs), nn.ReLU()]
        self.body = nn.Sequential(*layers[:-1])
        self.side = nn.Sequential(nn.Conv1d(inputs, outputs, 1, bias=False), nn.BatchNorm1d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """As long as x."""
        return F.relu(self.body(x) + self.side(x))


def _quartz(dilation: int) -> nn.Module:
    """QuartzNet at an eighth of its width; its last depthwise layer has a kernel of 87 with a dilation of 2."""
    blocks = [
        QuartzBlock(a, b, k)
        for a, b, k in ((32, 32, 33), (32, 32, 39), (32, 64, 51), (64, 64, 63), (64, 64, 75))
    ]
    deep = nn.Conv1d(64, 64, 87, padding=43 * dilation, dilation=dilation, groups=64, bias=False)
    tail = [
        deep,
        nn.Conv1d(64, 64, 1, bias=False),
        nn.BatchNorm1d(64),
        nn.ReLU(),
        nn.Conv1d(64, 128, 1),
        nn.ReLU(),
    ]
    return nn.Sequential(nn.Conv1d(64, 32, 33, 2, 16), nn.ReLU(), *blocks, *tail, nn.Conv1d(128, 29, 1))


@network("quartznet", signal(1, 64, 200), opset=13)
def _quartznet() -> Any:
    return _quartz(2)


@network("quartznet_undilated", signal(1, 64, 200), opset=13)
def _quartznet_undilated() -> Any:
    return _quartz(1)


class SkippedLstm(nn.Module):
    """EnCodec's: two LSTMs over time beside a skipped path."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(size, size, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [B, C, T]."""
        steps = x.permute(2, 0, 1)
        return (self.lstm(steps)[0] + steps).permute(1, 2, 0)


@network("encodec_like", signal(1, 1, 320), opset=13)
def _encodec() -> Any:
    """Strided convolutions with reflected borders, ELU, two LSTMs, a code per 32 samples."""
    layers: list[nn.Module] = [nn.Conv1d(1, 8, 7, padding=3, padding_mode="reflect")]
    for size, stride in ((8, 2), (16, 4), (32, 4)):
        pad = stride // 2
        layers += [nn.ELU(), nn.Conv1d(size, 2 * size, 2 * stride, stride, pad, padding_mode="reflect")]
    layers += [SkippedLstm(64), nn.ELU(), nn.Conv1d(64, 32, 7, padding=3, padding_mode="reflect")]
    return nn.Sequential(*layers)
