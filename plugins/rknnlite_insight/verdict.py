"""What a comparison comes to, as data and in words. Terminal, page and JSON all show these words; ``error_analysis`` measures."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Optional

from .tensor_error import TensorError

__all__ = ["Kind", "LayerError", "Quantisation", "Verdict"]

_MOSTLY = 0.5  # of an error: as much of it must go away in float for rounding to be its cause
_LARGEST = 3


class Kind(enum.Enum):
    """What the errors of a comparison amount to."""

    IDENTICAL = "identical"
    """Every tensor that both have holds the same values."""
    OUTPUTS_IDENTICAL = "outputs identical"
    """Noise on the way, of which nothing is left at the end."""
    NOISE = "noise of rounding"
    ADDED = "noise of rounding that adds up"
    LOSSY = "a tensor cannot hold its values"
    UNSEEN = "an error comes from tensors that were not compared"
    LOCAL = "a layer differs, the outputs do not"
    WRONG = "something is wrong"
    NOT_FINITE = "not finite"
    """A distance is no number: infinities or NaN in one of the runs."""


@dataclass(frozen=True)
class LayerError:
    """One tensor: relative errors alone (None: not measured) and after a whole run.

    ``steps`` is the root mean square of the error in steps of the quantised tensor, alone where that was measured;
    ``times`` how many typical layers' errors its own is. ``stored`` is the relative error of the reference's own values once
    they are rounded to the tensor's integers; ``saturates``: by more than rounding, as values lie outside of the range.
    ``grown`` is by how much the error after a whole run exceeds that after every layer before.
    """

    tensor: TensorError
    own: Optional[float]
    entire: float
    steps: Optional[float] = None
    times: Optional[float] = None
    stored: Optional[float] = None
    saturates: bool = False
    grown: float = 0.0


@dataclass(frozen=True)
class Quantisation:
    """One output, as Euclidean distances from the network that the model was made of.

    ``stored`` is the distance of the model as it computes, ``in_float`` that of the same file computed in float, with
    its weights as they are stored and nothing rounded between layers. All of it is measured.
    """

    name: str
    stored: float
    in_float: float

    @property
    def share(self) -> float:
        """The part of the distance, 0 to 1, that goes away when the file is computed in float; 0 where it grows."""
        return max(0.0, 1.0 - self.in_float / self.stored) if self.stored > 0 else 0.0

    @property
    def to_blame(self) -> bool:
        """Whether most of the distance goes away."""
        return self.share >= _MOSTLY

    def __str__(self) -> str:
        measured = (
            f"output {self.name} is {self.stored:.4g} from the source network, {self.in_float:.4g} with the "
            "same file computed in float"
        )
        if self.stored == 0:
            return f"There is no error to explain: {measured}."
        if self.in_float >= self.stored:
            return f"The rounding of activations is not the error: {measured}; the rest is weights or conversion."
        head = f"The rounding of activations is {100 * self.share:.0f} % of the error: {measured}"
        return f"{head}." if round(100 * self.share) == 100 else f"{head}; the rest is weights or conversion."


@dataclass(frozen=True)
class Verdict:
    """What a comparison comes to; ``str()`` is the headline and one sentence per line.

    ``layers`` are all tensors in order of execution, ``born`` those where the error is born, in that order (none where no
    layer stands out: then ``largest``). ``differing`` counts the tensors with another value anywhere. ``farthest`` is the output
    (the last tensor where ``no_output`` was compared) with the largest relative error after a whole run, None where none has any;
    ``outputs`` is that error. ``typical`` is the median of the layers' own relative errors (None: none was run alone),
    ``limit`` the error from which a layer is suspected, ``quantised`` whether any tensor is. ``quantisation`` is None where the
    file was not also computed in float.
    """

    kind: Kind
    layers: Sequence[LayerError]
    born: Sequence[LayerError] = field(default=())
    differing: int = 0
    farthest: Optional[LayerError] = None
    outputs: float = 0.0
    typical: Optional[float] = None
    limit: float = 0.0
    quantised: bool = False
    quantisation: Optional[Quantisation] = None
    no_output: bool = False

    @property
    def alone(self) -> bool:
        """Whether layers were judged alone, too."""
        return self.typical is not None

    @property
    def mood(self) -> str:
        """``good``, ``doubtful`` or ``bad``: how the verdict is coloured."""
        if self.kind in (Kind.IDENTICAL, Kind.OUTPUTS_IDENTICAL, Kind.NOISE):
            return "good"
        return "bad" if self.kind in (Kind.WRONG, Kind.NOT_FINITE) else "doubtful"

    @property
    def largest(self) -> list[LayerError]:
        """The three layers that err most by themselves, the worst first; where none was run alone, where the error grows most."""

        def error(layer: LayerError) -> float:
            return (layer.own or 0.0) if self.alone else layer.grown

        return sorted(filter(error, self.layers), key=error, reverse=True)[:_LARGEST]

    @property
    def headline(self) -> str:
        """The verdict in a few words."""
        noise = "Quantisation noise" if self.quantised else "Rounding noise"
        first = self.born[0].tensor.label if self.born else ""
        return {
            Kind.IDENTICAL: "Identical",
            Kind.OUTPUTS_IDENTICAL: "Outputs identical",
            Kind.NOISE: noise if self.alone else f"No more than {noise.lower()}",
            Kind.ADDED: f"{noise} that adds up{self._not_rounding}",
            Kind.LOSSY: f"Quantisation: {first} cannot hold its values",
            Kind.UNSEEN: f"{first} is off, by what lies before it",
            Kind.LOCAL: f"{first} differs, the outputs do not",
            Kind.WRONG: f"{'Quantisation' if self._rounding else 'Something'} is wrong from {first} on",
            Kind.NOT_FINITE: f"Not comparable: infinities or NaN from {first} on",
        }[self.kind]

    @property
    def sentence(self) -> str:
        """Why, in one sentence with the figures."""
        reached, noise = self._reached, "quantisation" if self.quantised else "rounding"
        if self.kind is Kind.IDENTICAL:
            return f"All {len(self.layers)} tensors are the same on both sides, number for number."
        if self.kind is Kind.NOT_FINITE:
            return "Distances that are no numbers cannot be judged; look at the values of both sides."
        if self.kind is Kind.LOSSY:
            return f"{_loss(self.born[0])}; other calibration data or a wider type may help; {reached}."
        if self.kind is Kind.UNSEEN:
            unseen = self.born[0].tensor.unseen
            return (
                f"{_blame(self.born)}, and {unseen} tensors before it were not compared: one of them is wrong, or the {noise} of "
                f"all adds up; {reached}."
            )
        if self.kind in (Kind.WRONG, Kind.LOCAL):
            local = self.kind is Kind.LOCAL
            names = ": both sides may mean different values by that name" if local else ""
            return f"{_blame(self.born)} (suspected from {_percent(self.limit)}); {reached}{names}."
        worst = self.largest[0] if self.largest else None
        if self.typical is None or worst is None:
            grows = (
                f"; the error grows most at {worst.tensor.label}, to {_percent(worst.entire)}"
                if worst
                else ""
            )
            return f"After a whole run {reached}, and no layer stands out{grows}."
        return (
            f"Alone, no layer is off by more than {_percent(worst.own or 0.0)}{_steps(worst)}, {worst.tensor.label}, and "
            f"the typical one by {_percent(self.typical)}; after a whole run {reached}."
        )

    @property
    def lines(self) -> list[str]:
        """The sentences below the headline: why, what it may be, what was not measured, what quantisation has to do with it."""
        found = [self.sentence]
        if self.kind is Kind.WRONG and not self._rounding:
            found.append(
                "Either this computes something else than the reference does, or both sides mean different values by that name."
            )
        if self.kind is not Kind.IDENTICAL:
            found.append(self._count)
        if self.no_output:
            found.append("No output was compared.")
        if self.kind not in (Kind.IDENTICAL, Kind.NOT_FINITE) and not self.alone:
            found.append(
                "No layer was run alone: mode single tells a layer's own error from those before it."
            )
        return [*found, *([str(self.quantisation)] if self.quantisation else [])]

    @property
    def _rounding(self) -> bool:
        """Whether computing the file in float was measured to take most of the error away."""
        return self.quantisation is not None and self.quantisation.to_blame

    @property
    def _not_rounding(self) -> str:
        """The reverse; nothing where it was not measured."""
        measured = self.quantisation is not None and not self.quantisation.to_blame
        return ", most of it in weights or conversion" if measured else ""

    @property
    def _reached(self) -> str:
        """How far the outputs are off."""
        ends, verb = ("the last tensor", "is") if self.no_output else ("the outputs", "are")
        return f"{ends} {verb} {_percent(self.outputs) + ' off' if self.farthest else 'identical'}"

    @property
    def _count(self) -> str:
        counted = f"{self.differing} of {len(self.layers)} tensors differ"
        if self.farthest is None or self.kind is Kind.NOT_FINITE:
            return f"{counted}."
        found = self.farthest.tensor.entire
        return (
            f"{counted}; farthest is {self.farthest.tensor.label}: cosine {found.cosine:.5f}, "
            f"Euclidean {found.euclidean:.4g}."
        )

    def __str__(self) -> str:
        return "\n".join([self.headline, *self.lines])


def _loss(layer: LayerError) -> str:
    """What a tensor that cannot hold the reference's values takes from them, and why."""
    why = (
        "values lie outside of the calibrated range"
        if layer.saturates
        else "its step is coarse beside its values"
    )
    return (
        f"The reference's values lose {_percent(layer.stored or 0.0)} by being stored in the integers of "
        f"{layer.tensor.label}: {why}"
    )


def _blame(born: Sequence[LayerError]) -> str:
    first = born[0]
    label = first.tensor.label
    if first.tensor.role == "input":
        return f"{label} differs before any layer has run, by {_percent(first.entire)}: look at mean, deviation and channel order"
    if first.own is None:
        return f"After a whole run the error is large for the first time at {label}: {_percent(first.entire)}"
    often = (
        f", {first.times:.0f} times the typical layer" if first.times and math.isfinite(first.times) else ""
    )
    others = len(born) - 1
    more = f", and so {'are' if others > 1 else 'is'} {others} more" if others else ""
    return (
        f"On the reference's own values {label} is off by {_percent(first.own)}{_steps(first)}{often}{more}"
    )


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %" if math.isfinite(share) else "more than can be told"


def _steps(layer: LayerError) -> str:
    return "" if layer.steps is None or not math.isfinite(layer.steps) else f" ({layer.steps:.2g} steps)"
