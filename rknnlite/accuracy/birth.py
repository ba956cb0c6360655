"""Where an error is born: what the errors of all layers say together. No model is run here.

Errors are relative: the Euclidean distance divided by the length of the reference's tensor. The limits were set by 28 networks
in int8 and 10 in float16 for RK3588, each judged layer by layer against its own network in float: a layer alone was never
further away than 0.27 and 0.0009. The exception were twelve tensors of one network (0.7) whose error is gone in the layers after
them: converter and exporter may mean different values by one name, which is why the outputs count here, too. What the values of
the reference lose by being stored in the model's integers is known per tensor: an error that this explains is quantisation's.
"""

from __future__ import annotations

import enum
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Optional

from .tensor_error import Distance, TensorError

__all__ = ["Birth", "LayerError", "Verdict", "find_birth"]

QUANTISED_LIMIT = 0.2
FLOAT_LIMIT = 0.01
"""Relative errors from which a layer is suspected, in networks with quantised tensors and without."""
_OUTSTANDING = 8.0  # as many times the error of a quiet layer: of four, three err more (what follows a wrong layer may, too)
_ANYWAY = 0.5  # suspected however bad the others are
_JUMP = 4.0  # of the error after a whole run over all layers before, where no layer was run alone
_NAMED = 3.0  # times the typical layer's error: worth a row, not a suspicion
_MOST_NAMED = 5
_STORED, _PASSED_ON = (
    2.0,
    3.0,
)  # times what is lost in storing a tensor: as much error it, and its readers, may show
_LOSSY = 0.5  # of the limit: a tensor that loses as much in storing cannot hold its values
_LASTING = 0.25  # of an error: what all later layers have at least, where it lasts
_FEW = 2  # tensors without a counterpart, by which a layer still counts as run alone
_HALF_STEP = 0.5  # what is lost beyond that lies outside of the range


class Verdict(enum.Enum):
    """What the errors amount to."""

    IDENTICAL = "identical"
    NOISE = "noise of rounding"
    ADDED = "noise of rounding that adds up"
    LOSSY = "a tensor cannot hold its values"
    UNSEEN = "an error comes from tensors that were not compared"
    LOCAL = "a layer differs, the outputs do not"
    WRONG = "something is wrong"


@dataclass(frozen=True)
class LayerError:
    """One tensor: relative errors alone (None: not measured) and after a whole run.

    ``steps`` is the root mean square of the error in steps of the quantised tensor, alone where that was measured;
    ``times`` how many typical layers' errors its own is. ``stored`` is the relative error of the reference's own values once
    they are rounded to the tensor's integers.
    """

    tensor: TensorError
    own: Optional[float]
    entire: float
    steps: Optional[float]
    times: Optional[float]
    stored: Optional[float] = None


@dataclass(frozen=True)
class Birth:
    """The verdict, all layers in order of execution, and those where the error is born, in that order.

    ``typical`` is the median of the layers' own relative errors (None: none was run alone), ``outputs`` the largest relative
    error of an output after a whole run, ``limit`` the one from which a layer is suspected.
    """

    verdict: Verdict
    layers: Sequence[LayerError]
    born: Sequence[LayerError]
    typical: Optional[float]
    outputs: float
    limit: float

    @property
    def quantised(self) -> bool:
        """Whether any tensor is."""
        return self.limit == QUANTISED_LIMIT

    @property
    def largest(self) -> list[LayerError]:
        """The three layers that err most by themselves, the worst first; none where none was run alone."""
        return sorted(
            (layer for layer in self.layers if layer.own is not None), key=lambda layer: -(layer.own or 0.0)
        )[:3]

    @property
    def headline(self) -> str:
        """The verdict in a few words."""
        noise = "Quantisation noise" if self.quantised else "Rounding noise"
        first = self.born[0].tensor.label if self.born else ""
        return {
            Verdict.IDENTICAL: "Identical",
            Verdict.NOISE: noise if self.typical is not None else f"No more than {noise.lower()}",
            Verdict.ADDED: f"{noise} that adds up",
            Verdict.LOSSY: f"Quantisation: {first} cannot hold its values",
            Verdict.UNSEEN: f"{first} is off, by what lies before it",
            Verdict.LOCAL: f"{first} differs, the outputs do not",
            Verdict.WRONG: f"Something is wrong from {first} on",
        }[self.verdict]

    @property
    def sentence(self) -> str:
        """Why, in one sentence with the figures."""
        reached = f"the outputs are {_percent(self.outputs)} off"
        noise = "quantisation" if self.quantised else "rounding"
        if self.verdict is Verdict.IDENTICAL:
            return f"All {len(self.layers)} tensors are the same on both sides, number for number."
        if self.verdict is Verdict.LOSSY:
            return f"{_loss(self.born[0])}; other calibration data or a wider type may help; {reached}."
        if self.verdict is Verdict.UNSEEN:
            unseen = self.born[0].tensor.unseen
            return (
                f"{_blame(self.born)}, and {unseen} tensors before it were not compared: one of them is wrong, or the {noise} of "
                f"all adds up; {reached}."
            )
        if self.verdict in (Verdict.WRONG, Verdict.LOCAL):
            local = self.verdict is Verdict.LOCAL
            names = ": both sides may mean different values by that name" if local else ""
            return f"{_blame(self.born)} (suspected from {_percent(self.limit)}); {reached}{names}."
        if self.typical is None:
            return f"After a whole run {reached}, and no layer stands out; what each layer errs alone, mode single tells."
        worst = self.largest[0]
        return (
            f"Alone, no layer is off by more than {_percent(worst.own or 0.0)}{_steps(worst)}, {worst.tensor.label}, and "
            f"the typical one by {_percent(self.typical)}; after a whole run {reached}."
        )


def find_birth(tensors: Sequence[TensorError]) -> Birth:
    """What the errors of a comparison's tensors (in order of execution) amount to, and where they are born."""
    limit = QUANTISED_LIMIT if any(tensor.step for tensor in tensors) else FLOAT_LIMIT
    owns = [None if tensor.single is None else _relative(tensor.single, tensor) for tensor in tensors]
    measured = [
        own for own, tensor in zip(owns, tensors) if own and math.isfinite(own) and tensor.role != "input"
    ]
    alone = any(own is not None for own in owns)
    typical = (statistics.median(measured) if measured else 0.0) if alone else None
    quiet = sorted(measured)[len(measured) // 4] if measured else 0.0
    layers = [_layer(tensor, own, typical) for tensor, own in zip(tensors, owns)]
    ends = [layer.entire for layer in layers if layer.tensor.role == "output"] or [
        layer.entire for layer in layers[-1:]
    ]
    outputs = max(ends, default=0.0)
    suspects = _suspects(layers, quiet, limit) if alone else _jumps(layers, limit)
    lossy = [layer for layer in layers if (layer.stored or 0.0) >= _LOSSY * limit]
    lasting = [layer for layer in lossy if _lasts(layer.stored, layer, layers)]
    gone = any((layer.stored or 0.0) >= limit for layer in lossy)
    near = [layer for layer in suspects if layer.tensor.unseen <= _FEW]
    verdict = _verdict(layers, bool(suspects) or (gone and outputs < limit), bool(lasting), outputs >= limit)
    if verdict is Verdict.WRONG and not near:
        verdict = Verdict.UNSEEN
    wrong = [layer for layer in near if _lasts(layer.own, layer, layers)] or near or suspects
    born = (lasting if verdict is Verdict.LOSSY else wrong) or lossy or _notable(layers)
    return Birth(verdict, layers, [] if verdict is Verdict.IDENTICAL else born, typical, outputs, limit)


def _relative(found: Distance, tensor: TensorError) -> float:
    """By the length of the reference; where that is not known, as long as vectors of equal length with this cosine are apart."""
    if found.euclidean == 0.0:
        return 0.0
    if not math.isfinite(found.euclidean) or tensor.length == 0.0:
        return math.inf
    if tensor.length is None:
        return math.sqrt(max(0.0, 2 - 2 * found.cosine))
    return found.euclidean / tensor.length


def _layer(tensor: TensorError, own: float | None, typical: float | None) -> LayerError:
    euclidean = (tensor.single or tensor.entire).euclidean
    steps = _in_steps(euclidean, tensor) if tensor.step else None
    times = own / typical if own is not None and typical else None
    stored = None if tensor.stored is None else _relative(tensor.stored, tensor)
    return LayerError(tensor, own, _relative(tensor.entire, tensor), steps, times, stored)


def _in_steps(euclidean: float, tensor: TensorError) -> float:
    """Root mean square of an error, in steps of a quantised tensor."""
    return euclidean / math.sqrt(max(1, math.prod(tensor.shape))) / (tensor.step or math.inf)


def _suspects(layers: Sequence[LayerError], quiet: float, limit: float) -> list[LayerError]:
    """Those whose own error is large, and more than storing its values or those before it takes."""
    least = max(limit, min(_ANYWAY, _OUTSTANDING * quiet))
    return [
        layer for layer, lost in zip(layers, _explained(layers)) if (layer.own or 0.0) >= max(least, lost)
    ]


def _jumps(layers: Sequence[LayerError], limit: float) -> list[LayerError]:
    """The first layer where the error after a whole run is large at once."""
    before = 0.0
    for layer, lost in zip(layers, _explained(layers)):
        if layer.entire >= max(limit, _JUMP * before, lost):
            return [layer]
        before = max(before, layer.entire)
    return []


def _explained(layers: Sequence[LayerError]) -> Iterator[float]:
    """Per layer the error that storing its values, or those of any layer before it, explains."""
    before = 0.0
    for layer in layers:
        stored = layer.stored or 0.0
        yield max(_STORED * stored, min(_ANYWAY, _PASSED_ON * before))
        before = max(before, stored)


def _lasts(error: float | None, layer: LayerError, layers: Sequence[LayerError]) -> bool:
    """Whether all later layers have a part of an error; where both sides mean different values by one name, they do not."""
    later = layers[next(i for i, one in enumerate(layers) if one is layer) + 1 :]
    return all(one.entire >= _LASTING * min(1.0, error or 0.0) for one in later)


def _verdict(layers: Sequence[LayerError], suspects: bool, lossy: bool, far: bool) -> Verdict:
    if not any(layer.entire or layer.own for layer in layers):
        return Verdict.IDENTICAL
    if suspects:
        return Verdict.WRONG if far else Verdict.LOCAL
    if far:
        return Verdict.LOSSY if lossy else Verdict.ADDED
    return Verdict.NOISE


def _notable(layers: Sequence[LayerError]) -> list[LayerError]:
    """The layers that err most beside the others, where none is suspected."""
    found = sorted(layers, key=lambda layer: -(layer.times or 0.0))[:_MOST_NAMED]
    named = [id(layer) for layer in found if (layer.times or 0.0) >= _NAMED]
    return [layer for layer in layers if id(layer) in named]


def _loss(layer: LayerError) -> str:
    """What a tensor that cannot hold the reference's values takes from them, and why."""
    tensor = layer.tensor
    assert tensor.stored is not None and tensor.step is not None
    beyond = _in_steps(tensor.stored.euclidean, tensor) > _HALF_STEP
    why = "values lie outside of the calibrated range" if beyond else "its step is coarse beside its values"
    return f"The reference's values lose {_percent(layer.stored or 0.0)} by being stored in the integers of {tensor.label}: {why}"


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
