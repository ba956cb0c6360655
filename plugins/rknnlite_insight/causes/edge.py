"""A tensor between two layers, channel by channel: what storing takes from its values, and what the layers add to that."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from ..dumps import DumpedTensor
from ..stored_values import limits_of, stored_values

__all__ = ["Edge", "channels_of", "relative"]

Array = NDArray[Any]
_SILENT = 1e-6  # of the strongest channel: below, a channel says nothing
_STEPS = 255


def channels_of(values: Array) -> Array:
    """Values as [channels, elements]: the second axis of NCHW and of [N, C], the last one of other ranks."""
    if values.ndim < 2:
        return values.reshape(1, -1)
    axis = 1 if values.ndim in (2, 4, 5) else values.ndim - 1
    return np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)


def relative(error: float, signal: float) -> float:
    """The relative error of sums of squares."""
    if error == 0.0:
        return 0.0
    return math.sqrt(error / signal) if signal > 0 and math.isfinite(error) else math.inf


@dataclass
class Edge:
    """Sums over all samples, one entry per channel.

    ``low`` and ``high`` are the range of the reference's values, ``signal`` the sum of their squares. The other sums are squares of
    errors: ``lost`` what storing the reference's values takes, ``beyond`` the part of it that lies outside of what the tensor can
    hold; ``entire`` after a whole run, ``alone`` after this layer alone on the reference's values, ``weights`` the same with
    nothing rounded but the weights. ``clipped`` counts the values outside, ``count`` all values of a channel. ``product`` and
    ``ran`` are sums over all channels: of the products with what a whole run gives, and of the squares of that.
    """

    about: DumpedTensor
    count: int = 0
    low: Array = field(default_factory=lambda: np.zeros(0))
    high: Array = field(default_factory=lambda: np.zeros(0))
    signal: Array = field(default_factory=lambda: np.zeros(0))
    lost: Array = field(default_factory=lambda: np.zeros(0))
    beyond: Array = field(default_factory=lambda: np.zeros(0))
    clipped: Array = field(default_factory=lambda: np.zeros(0))
    entire: Array = field(default_factory=lambda: np.zeros(0))
    product: float = 0.0
    ran: float = 0.0
    alone: Array = field(default_factory=lambda: np.zeros(0))
    weights: Array = field(default_factory=lambda: np.zeros(0))

    def add(self, golden: Array, entire: Array, alone: Array, in_float: Array) -> None:
        """One more sample: the reference's values, those after a whole run, those of the layer alone, and alone in float."""
        real = channels_of(golden.astype(np.float64))
        low, high = real.min(axis=1), real.max(axis=1)
        held = stored_values(golden, self.about)
        held = real if held is None else channels_of(held.astype(np.float64))
        least, most = limits_of(self.about) or (-math.inf, math.inf)
        half = 0.5 * (self.about.scale or 0.0)
        outside = (real < least - half) | (real > most + half)
        with np.errstate(invalid="ignore", over="ignore"):
            sums = {
                "signal": (real**2).sum(axis=1),
                "lost": ((held - real) ** 2).sum(axis=1),
                "beyond": (np.where(outside, held - real, 0.0) ** 2).sum(axis=1),
                "clipped": outside.sum(axis=1),
                "entire": _squares(entire, golden),
                "alone": _squares(alone, golden),
                "weights": _squares(in_float, golden),
            }
        first = not self.count
        self.count += real.shape[1]
        self.low, self.high = (
            (low, high) if first else (np.minimum(self.low, low), np.maximum(self.high, high))
        )
        flat, got = golden.reshape(-1).astype(np.float64), entire.reshape(-1).astype(np.float64)
        self.product, self.ran = self.product + float(flat @ got), self.ran + float(got @ got)
        for name, value in sums.items():
            setattr(self, name, value if first else getattr(self, name) + value)

    @property
    def heard(self) -> Array:
        """Which channels have values worth a figure."""
        return np.asarray(self.signal > _SILENT**2 * self.signal.max(initial=0.0))

    def error(self, kind: str) -> float:
        """The relative error of the whole tensor: ``lost``, ``entire``, ``alone`` or ``weights``."""
        return relative(float(getattr(self, kind).sum()), float(self.signal.sum()))

    @property
    def cosine(self) -> float:
        """After whole runs."""
        size = math.sqrt(float(self.signal.sum()) * self.ran)
        return self.product / size if size else float(not self.entire.sum())

    def errors(self, kind: str) -> Array:
        """The relative error of each channel that is heard."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.sqrt(getattr(self, kind)[self.heard] / self.signal[self.heard]))

    def decibels(self, kind: str) -> tuple[float, float]:
        """Signal to noise in dB: the middle channel and the worst."""
        errors = self.errors(kind)
        if not errors.size:
            return math.inf, math.inf
        return _decibel(float(np.median(errors))), _decibel(float(errors.max()))

    @property
    def levels(self) -> Array:
        """How many steps of the tensor each channel's values span, with zero; 255 for what is not quantised."""
        if not self.about.scale:
            return np.full(len(self.low), float(_STEPS))
        least, most = limits_of(self.about) or (-math.inf, math.inf)
        low, high = self.low.clip(least, 0), self.high.clip(0, most)
        return np.asarray((high - low) / self.about.scale)

    @property
    def span(self) -> Array:
        """How wide the values of each channel lie, with zero."""
        return np.asarray(np.maximum(self.high, 0) - np.minimum(self.low, 0))

    @property
    def used(self) -> float:
        """The part of the tensor's range that its values use, 0 to 1."""
        limits = limits_of(self.about)
        if limits is None or not self.about.scale or not len(self.low):
            return 1.0
        low, high = max(self.low.min(), limits[0]), min(self.high.max(), limits[1])
        return float(max(0.0, high - low) / (limits[1] - limits[0]))

    @property
    def clipped_share(self) -> float:
        """The part of the values outside of what the tensor can hold."""
        return float(self.clipped.sum()) / max(1, self.count * len(self.clipped))

    @property
    def saturates(self) -> bool:
        """Whether storing takes 5 % or more, most of it from values outside of the range."""
        return self.error("lost") >= 0.05 and float(self.beyond.sum()) > 0.5 * float(self.lost.sum())

    @property
    def large(self) -> Optional[tuple[int, ...]]:
        """The channels that take the range from the others: few, eight times as wide as the middle one, which has less than 32
        steps; None where there are none."""
        heard = np.flatnonzero(self.heard)
        if len(heard) < 2 or not self.about.scale:
            return None
        levels = self.span[heard] / self.about.scale
        middle, most = float(np.median(levels)), float(levels.max())
        if middle >= 32 or most < 8 * max(middle, 1e-9):
            return None
        return tuple(int(n) for n in heard[levels > most / 4])


def _squares(values: Array, golden: Array) -> Array:
    apart = values.reshape(golden.shape).astype(np.float64) - golden
    return np.asarray((channels_of(apart) ** 2).sum(axis=1))


def _decibel(error: float) -> float:
    return math.inf if error == 0.0 else -20 * math.log10(error) if math.isfinite(error) else -math.inf
