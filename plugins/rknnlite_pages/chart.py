"""A chart of a page: a column per layer, in order of execution. Its geometry, in the units of the SVG; no drawing."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Optional

__all__ = ["Chart", "Series"]

_PITCH = 10.0  # of a layer, in units of the SVG
_GAP = 1.5
_MOST_DECADES = 7
_NAMES_BELOW = 6


@dataclass(frozen=True)
class Series:
    """A value per layer; None where there is none, infinity counts as the largest."""

    name: str
    values: Sequence[Optional[float]]


@dataclass(frozen=True)
class Column:
    """A rectangle; ``kind`` is the number of its series, ``tip`` what a pointer over it shows."""

    x: float
    width: float
    height: float
    kind: int
    marked: bool
    tip: str


@dataclass(frozen=True)
class Chart:
    """Columns of one or two series. Heights run from 0 to 100; ``logarithmic`` axes show at most seven powers of ten.

    ``marked`` are the layers that stand out, counted from 0, ``marked_name`` what they are.
    """

    title: str
    unit: str
    labels: Sequence[str]
    series: Sequence[Series]
    logarithmic: bool = False
    marked: Collection[int] = ()
    marked_name: str = "stands out"
    note: str = ""

    @property
    def width(self) -> float:
        """Of all columns."""
        return _PITCH * max(1, len(self.labels))

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Heights of the lines across, and what they stand for, from below."""
        low, high = self._range()
        if self.logarithmic:
            powers = range(round(math.log10(low)), round(math.log10(high)) + 1)
            return [(self._height(10.0**power), _power(power)) for power in powers]
        step = _round_step(high)
        count = math.floor(high / step + 1e-9)
        return [(self._height(step * number), f"{step * number:g}") for number in range(count + 1)]

    @property
    def columns(self) -> list[Column]:
        """What is drawn; a value of 0, or below a logarithmic axis, has no height."""
        each = (_PITCH - _GAP) / max(1, len(self.series))
        return [
            Column(
                round(layer * _PITCH + _GAP / 2 + kind * each, 2),
                round(each, 2),
                round(self._height(value), 2),
                kind,
                layer in self.marked,
                self._tip(layer, series, value),
            )
            for kind, series in enumerate(self.series)
            for layer, value in enumerate(series.values)
            if value is not None
        ]

    @property
    def places(self) -> list[tuple[float, str]]:
        """Layer numbers below the axis, and where they stand in percent of the width."""
        count = len(self.labels)
        if not count:
            return []
        step = max(1, math.ceil(count / _NAMES_BELOW))
        return [(round(100 * (layer + 0.5) / count, 2), str(layer + 1)) for layer in range(0, count, step)]

    @property
    def summary(self) -> str:
        """For those who do not see it: the largest values."""
        known = [
            (value, self._tip(layer, series, value))
            for series in self.series
            for layer, value in enumerate(series.values)
            if value is not None
        ]
        most = sorted(known, key=lambda pair: -_finite(pair[0]))[:3]
        return f"{self.title}, {self.unit}; largest: {'; '.join(tip for _, tip in most) or 'none'}"

    def _tip(self, layer: int, series: Series, value: float) -> str:
        name = f", {series.name}" if len(self.series) > 1 else ""
        return f"{layer + 1}: {self.labels[layer]}{name}: {value:.4g} {self.unit}"

    def _range(self) -> tuple[float, float]:
        values = [
            v for series in self.series for v in series.values if v is not None and math.isfinite(v) and v > 0
        ]
        high = max(values, default=1.0)
        if not self.logarithmic:
            return 0.0, high
        top = math.ceil(math.log10(high))
        bottom = min(math.floor(math.log10(min(values, default=1.0))), top - 1)
        return 10.0 ** max(bottom, top - _MOST_DECADES), 10.0**top

    def _height(self, value: float) -> float:
        low, high = self._range()
        if not math.isfinite(value):
            return 100.0
        if not self.logarithmic:
            return 100 * max(0.0, value) / high
        if value <= low:
            return 0.0
        return 100 * math.log10(value / low) / math.log10(high / low)


def _power(power: int) -> str:
    return f"{10.0**power:g}" if abs(power) <= 3 else f"1e{power}"


def _finite(value: float) -> float:
    return value if math.isfinite(value) else math.inf


def _round_step(high: float) -> float:
    """1, 2 or 5 times a power of ten, so that three to seven lines fit below ``high``."""
    power = 10.0 ** math.floor(math.log10(high))
    return next(power * part for part in (0.2, 0.5, 1.0, 2.0) if high / (power * part) <= 6)
