"""Speech and sound: separation, recognition, voice activity, keywords, speakers."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from network import network, signal
from torch import nn


class Separable(nn.Module):
    """Conv-TasNet's block: global layer norm, PReLU with one slope, dilated depthwise convolution."""

    def __init__(self, channels: int, inner: int, dilation: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(channels, inner, 1), nn.PReLU(), nn.GroupNorm(1, inner),
            nn.Conv1d(inner, inner, 3, padding=dilation, dilation=dilation, groups=inner), nn.PReLU(),
            nn.GroupNorm(1, inner), nn.Conv1d(inner, channels, 1),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Residual."""
        return x + self.body(x)


class ConvTasNet(nn.Module):
    """Encoder, separator, masks for two sources, transposed convolution as decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Conv1d(1, 48, 16, 8, bias=False)
        self.norm, self.squeeze = nn.GroupNorm(1, 48), nn.Conv1d(48, 24, 1)
        self.blocks = nn.Sequential(*(Separable(24, 48, 2**n) for n in range(4)))
        self.masks = nn.Conv1d(24, 96, 1)
        self.decoder = nn.ConvTranspose1d(48, 1, 16, 8, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Two waveforms."""
        coded = F.relu(self.encoder(x))
        masks = self.masks(self.blocks(self.squeeze(self.norm(coded)))).view(2, 48, -1).sigmoid()
        return self.decoder(coded * masks)


@network("conv_tasnet", signal(1, 1, 1600), opset=12)
def _conv_tasnet() -> Any:
    return ConvTasNet()


class FeedForward(nn.Sequential):
    """Half a step of Conformer's feed forward part."""

    def __init__(self, size: int) -> None:
        super().__init__(nn.LayerNorm(size), nn.Linear(size, 4 * size), nn.SiLU(), nn.Linear(4 * size, size))


class ConformerBlock(nn.Module):
    """Feed forward, attention, convolution with a gate, feed forward."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.first, self.last, self.heads = FeedForward(size), FeedForward(size), heads
        self.norm1, self.qkv, self.out = nn.LayerNorm(size), nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.norm2, self.norm3 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.enter, self.leave = nn.Conv1d(size, 2 * size, 1), nn.Conv1d(size, size, 1)
        self.depth, self.bn = nn.Conv1d(size, size, 15, padding=7, groups=size), nn.BatchNorm1d(size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(1, time, size) -> the same."""
        x = x + 0.5 * self.first(x)
        q, k, v = (
            t.view(*t.shape[:2], self.heads, t.shape[-1] // self.heads).transpose(1, 2)
            for t in self.qkv(self.norm1(x)).chunk(3, -1)
        )
        scores = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(-1)
        x = x + self.out((scores @ v).transpose(1, 2).reshape(x.shape))
        y = F.glu(self.enter(self.norm2(x).transpose(1, 2)), 1)
        x = x + self.leave(F.silu(self.bn(self.depth(y)))).transpose(1, 2)
        return self.norm3(x + 0.5 * self.last(x))


class Conformer(nn.Module):
    """Subsampling by two strided convolutions, blocks, classes with log softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.sub = nn.Sequential(nn.Conv2d(1, 16, 3, 2), nn.ReLU(), nn.Conv2d(16, 16, 3, 2), nn.ReLU())
        self.enter = nn.Linear(16 * 9, 48)
        self.blocks = nn.Sequential(ConformerBlock(48, 4), ConformerBlock(48, 4))
        self.out = nn.Linear(48, 30)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Log probabilities per frame."""
        y = self.sub(x.unsqueeze(1))
        y = self.enter(y.transpose(1, 2).flatten(2))
        return self.out(self.blocks(y)).log_softmax(-1)


@network("conformer_ctc", signal(1, 64, 40), opset=13)
def _conformer() -> Any:
    return Conformer()


class GruVad(nn.Module):
    """Voice activity: filter bank as a strided convolution, magnitudes, GRU with a state outside."""

    def __init__(self) -> None:
        super().__init__()
        self.bank = nn.Conv1d(1, 66, 64, 32, padding=32, bias=False)
        self.body = nn.Sequential(
            nn.Conv1d(33, 32, 3, 2, 1), nn.ReLU(), nn.Conv1d(32, 32, 3, 2, 1), nn.ReLU()
        )
        self.gru, self.out = nn.GRU(32, 32), nn.Linear(32, 1)

    def forward(self, x: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Probability and next state."""
        real, imaginary = self.bank(x.unsqueeze(1)).chunk(2, 1)
        y = self.body((real**2 + imaginary**2).sqrt())
        y, state = self.gru(y.permute(2, 0, 1), state)
        return self.out(y).sigmoid().mean(0), state


@network("gru_vad", signal(1, 512), signal(1, 1, 32), opset=15)
def _gru_vad() -> Any:
    return GruVad()


class DsCnn(nn.Sequential):
    """Keywords: asymmetric first kernel, depthwise separable blocks, average pool."""

    def __init__(self, size: int = 32) -> None:
        blocks: list[nn.Module] = []
        for _ in range(3):
            blocks += [nn.Conv2d(size, size, 3, 1, 1, groups=size), nn.BatchNorm2d(size), nn.ReLU()]
            blocks += [nn.Conv2d(size, size, 1), nn.BatchNorm2d(size), nn.ReLU()]
        stem = [nn.Conv2d(1, size, (10, 4), (2, 2), (5, 1)), nn.BatchNorm2d(size), nn.ReLU()]
        super().__init__(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(size, 12))


@network("kws_dscnn", signal(1, 1, 49, 10), opset=11)
def _dscnn() -> Any:
    return DsCnn()


class BcRes(nn.Module):
    """Broadcast residual: frequency is averaged away, processed over time, and added to all frequencies again."""

    def __init__(self, size: int, dilation: int) -> None:
        super().__init__()
        self.f2 = nn.Sequential(nn.Conv2d(size, size, (3, 1), 1, (1, 0), groups=size), nn.BatchNorm2d(size))
        self.f1 = nn.Sequential(
            nn.Conv2d(size, size, (1, 3), 1, (0, dilation), (1, dilation), groups=size), nn.BatchNorm2d(size),
            nn.SiLU(), nn.Conv2d(size, size, 1),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Residual."""
        y = self.f2(x)
        return F.relu(x + y + self.f1(y.mean(2, keepdim=True)))


@network("kws_bcresnet", signal(1, 1, 40, 64), opset=13)
def _bcresnet() -> Any:
    stem = [nn.Conv2d(1, 24, 5, (2, 1), 2), nn.BatchNorm2d(24), nn.ReLU()]
    tail = [nn.AdaptiveAvgPool2d(1), nn.Conv2d(24, 12, 1), nn.Flatten()]
    return nn.Sequential(*stem, BcRes(24, 1), BcRes(24, 2), BcRes(24, 4), *tail)


class TcRes(nn.Module):
    """Temporal convolution: frequencies are channels, kernels are 9x1."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(inputs, outputs, 9, 2, 4, bias=False), nn.BatchNorm1d(outputs), nn.ReLU(),
            nn.Conv1d(outputs, outputs, 9, 1, 4, bias=False), nn.BatchNorm1d(outputs),
        )  # fmt: skip
        self.side = nn.Sequential(
            nn.Conv1d(inputs, outputs, 1, 2, bias=False), nn.BatchNorm1d(outputs), nn.ReLU()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Halves the time."""
        return F.relu(self.body(x) + self.side(x))


@network("kws_tcresnet", signal(1, 40, 96), opset=12)
def _tcresnet() -> Any:
    tail = [nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(48, 12)]
    return nn.Sequential(nn.Conv1d(40, 16, 3, 1, 1), TcRes(16, 24), TcRes(24, 32), TcRes(32, 48), *tail)


class EcapaBlock(nn.Module):
    """Squeeze and excitation with Res2Net's split."""

    def __init__(self, size: int, dilation: int) -> None:
        super().__init__()
        part = size // 4
        self.enter, self.leave = nn.Conv1d(size, size, 1), nn.Conv1d(size, size, 1)
        self.parts = nn.ModuleList(
            nn.Conv1d(part, part, 3, padding=dilation, dilation=dilation) for _ in range(3)
        )
        self.squeeze = nn.Sequential(nn.Conv1d(size, 16, 1), nn.ReLU(), nn.Conv1d(16, size, 1), nn.Sigmoid())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Residual."""
        pieces = list(F.relu(self.enter(x)).chunk(4, 1))
        for n, conv in enumerate(self.parts):
            pieces[n + 1] = F.relu(conv(pieces[n + 1] + pieces[n]))
        y = self.leave(torch.cat(pieces, 1))
        return x + y * self.squeeze(y.mean(2, keepdim=True))


class Ecapa(nn.Module):
    """Speaker embedding: attentive statistics of frames, L2 norm at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv1d(40, 32, 5, padding=2), nn.ReLU(), nn.BatchNorm1d(32))
        self.blocks = nn.ModuleList(EcapaBlock(32, d) for d in (2, 3))
        self.merge = nn.Conv1d(64, 48, 1)
        self.attention = nn.Sequential(nn.Conv1d(48, 16, 1), nn.Tanh(), nn.Conv1d(16, 48, 1), nn.Softmax(2))
        self.out = nn.Linear(96, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Unit vectors."""
        first = self.blocks[0](self.stem(x))
        y = F.relu(self.merge(torch.cat((first, self.blocks[1](first)), 1)))
        weights = self.attention(y)
        mean = (y * weights).sum(2)
        spread = ((y**2 * weights).sum(2) - mean**2).clamp(min=1e-4).sqrt()
        return F.normalize(self.out(torch.cat((mean, spread), 1)))


@network("ecapa_tdnn", signal(1, 40, 80), opset=13)
def _ecapa() -> Any:
    return Ecapa()


class Vocoder(nn.Module):
    """HiFi-GAN's generator: transposed convolutions, dilated residuals, leaky ReLU, tanh."""

    def __init__(self) -> None:
        super().__init__()
        self.pre, self.post = nn.Conv1d(20, 32, 7, padding=3), nn.Conv1d(8, 1, 7, padding=3)
        self.ups = nn.ModuleList([nn.ConvTranspose1d(32, 16, 8, 4, 2), nn.ConvTranspose1d(16, 8, 4, 2, 1)])
        self.res = nn.ModuleList(
            nn.ModuleList(nn.Conv1d(c, c, 3, padding=d, dilation=d) for d in (1, 3)) for c in (16, 8)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A waveform."""
        x = self.pre(x)
        for up, convs in zip(self.ups, self.res, strict=True):
            x = up(F.leaky_relu(x, 0.1))
            for conv in convs:
                x = x + conv(F.leaky_relu(x, 0.1))
        return self.post(F.leaky_relu(x)).tanh()


@network("hifigan", signal(1, 20, 40), opset=13)
def _vocoder() -> Any:
    return Vocoder()


class Dtln(nn.Module):
    """Noise suppression: LSTM masks for magnitudes, then for a learned basis."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm1, self.mask1 = nn.LSTM(65, 32, 2, batch_first=True), nn.Linear(32, 65)
        self.enter, self.norm = nn.Conv1d(65, 48, 1, bias=False), nn.LayerNorm(48)
        self.lstm2, self.mask2 = nn.LSTM(48, 32, batch_first=True), nn.Linear(32, 48)
        self.leave = nn.Conv1d(48, 65, 1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(1, time, 65)."""
        x = x.abs()
        x = x * self.mask1(self.lstm1(x)[0]).sigmoid()
        y = self.enter(x.transpose(1, 2)).transpose(1, 2)
        mask = self.mask2(self.lstm2(self.norm(y))[0]).sigmoid()
        return self.leave((y * mask).transpose(1, 2)).transpose(1, 2)


@network("dtln", signal(1, 16, 65), opset=14)
def _dtln() -> Any:
    return Dtln()


@network("crnn", signal(1, 1, 32, 100), opset=11)
def _crnn() -> Any:
    class Crnn(nn.Module):
        """Text lines: pools of 2x2 and 2x1, two bidirectional LSTMs."""

        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(1, 16, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2, 2), nn.Conv2d(16, 32, 3, 1, 1), nn.ReLU(),
                nn.MaxPool2d(2, 2), nn.Conv2d(32, 48, 3, 1, 1), nn.BatchNorm2d(48), nn.ReLU(),
                nn.MaxPool2d((2, 2), (2, 1), (0, 1)), nn.Conv2d(48, 48, 3, 1, 1), nn.ReLU(),
                nn.MaxPool2d((2, 2), (2, 1), (0, 1)), nn.Conv2d(48, 48, 2), nn.BatchNorm2d(48), nn.ReLU(),
            )  # fmt: skip
            self.rnn, self.out = nn.LSTM(48, 32, 2, bidirectional=True), nn.Linear(64, 37)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.body(x).squeeze(2).permute(2, 0, 1)
            return self.out(self.rnn(y)[0])

    return Crnn()
