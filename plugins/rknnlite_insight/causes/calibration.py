"""Calibration inputs against the inputs with which the accuracy is gone, and against each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Optional

import numpy as np

from ..stored_values import limits_of
from .edge import Edge
from .trial import Sample, Trial

__all__ = ["SetRange", "calibration_lines", "set_ranges"]

_ODD = 2.0  # times as wide a range by one sample alone
_OTHER = 0.1  # of a range
_WIDER = 1.1


@dataclass(frozen=True)
class SetRange:
    """A tensor of the reference: its range on the calibration set and on the inputs that are judged, and what the file can hold.

    ``odd`` is the number of the calibration sample without which the range is ``times`` as narrow or narrower; None for none.
    """

    name: str
    calibration: tuple[float, float]
    samples: tuple[float, float]
    file: Optional[tuple[float, float]]
    odd: Optional[int] = None
    times: float = 1.0

    @property
    def beyond(self) -> float:
        """How many times as wide a range these inputs need as the calibration set has."""
        low, high = min(self.samples[0], self.calibration[0]), max(self.samples[1], self.calibration[1])
        return (high - low) / (_width(self.calibration) or 1e-30)

    @property
    def of_file(self) -> bool:
        """Whether the file's range can come of this set."""
        if self.file is None:
            return True
        return abs(_width(self.file) / (_width(_with_zero(self.calibration)) or 1e-30) - 1) <= _OTHER


def _width(pair: tuple[float, float]) -> float:
    return pair[1] - pair[0]


def _with_zero(pair: tuple[float, float]) -> tuple[float, float]:
    """A range that has zero in it, as every quantised tensor's has."""
    return min(pair[0], 0.0), max(pair[1], 0.0)


def set_ranges(
    trial: Trial, calibration: Sequence[Sample], edges: Mapping[str, Edge], tell: Callable[[str], None]
) -> list[SetRange]:
    """In order of computation, of every tensor that the model stores."""
    seen: dict[str, list[tuple[float, float]]] = {}
    for number, sample in enumerate(calibration):
        tell(f"calibration input {number + 1}")
        dump = trial.golden(sample)
        for name in dump.names:
            if name in edges:
                value = dump.value(name)
                seen.setdefault(name, []).append((float(value.min()), float(value.max())))
        trial.drop(dump)
    return [_range(name, edges[name], np.array(pairs)) for name, pairs in seen.items()]


def _range(name: str, edge: Edge, pairs: np.ndarray) -> SetRange:
    lows, highs = pairs.T
    whole = float(lows.min()), float(highs.max())
    odd, times = None, 1.0
    if len(pairs) > 2:
        for number in {int(lows.argmin()), int(highs.argmax())}:
            rest = np.delete(pairs, number, axis=0)
            narrow = float(rest[:, 1].max() - rest[:, 0].min())
            found = _width(whole) / narrow if narrow > 0 else 1.0
            if found >= max(_ODD, times):
                odd, times = number, found
    limits = limits_of(edge.about) if edge.about.scale else None
    return SetRange(name, whole, (float(edge.low.min()), float(edge.high.max())), limits, odd, times)


def calibration_lines(ranges: Sequence[SetRange], names: Sequence[str]) -> list[str]:
    """What a set says, a sentence each; ``names`` are those of its samples."""
    found = []
    odd = [each for each in ranges if each.odd is not None]
    for number in dict.fromkeys(each.odd for each in odd if each.odd is not None):
        mine = [each for each in odd if each.odd == number]
        most = max(mine, key=lambda each: each.times)
        found.append(
            f"Calibration input {names[number]} is odd: it alone makes the range of {most.name} {most.times:.3g} times as wide, "
            f"and that of {len(mine)} of {len(ranges)} tensors at least {_ODD:g} times."
        )
    strange = [each for each in ranges if not each.of_file]
    if 2 * len(strange) > len(ranges):
        first = strange[0]
        assert first.file is not None
        found.append(
            f"The file was calibrated with something else: it holds {first.file[0]:.3g} to {first.file[1]:.3g} in {first.name}, "
            f"this set reaches from {first.calibration[0]:.3g} to {first.calibration[1]:.3g}."
        )
    wide = [each for each in ranges if each.beyond > _WIDER]
    if wide:
        worst = max(wide, key=lambda each: each.beyond)
        found.append(
            f"These inputs go beyond the calibration set in {len(wide)} of {len(ranges)} tensors, first in {wide[0].name}, most in "
            f"{worst.name}: {worst.samples[0]:.3g} to {worst.samples[1]:.3g} instead of {worst.calibration[0]:.3g} to "
            f"{worst.calibration[1]:.3g}."
        )
    return found or ["The calibration set covers these inputs in every tensor, and none of it is odd."]
