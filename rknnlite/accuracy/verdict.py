"""What a comparison comes to: whether anything differs, how much, where it begins, and what quantisation has to do with it."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from .comparison import Comparison
from .tensor_error import TensorError

__all__ = ["Kind", "Quantisation", "Verdict", "judge"]


class Kind(enum.Enum):
    """How two runs of a network compare."""

    IDENTICAL = "identical"
    """Every tensor that both have holds the same values."""
    OUTPUTS_IDENTICAL = "outputs identical"
    """Something differs on the way and is gone at the end."""
    DIFFERENT = "different"
    """At least one output differs; where no output was compared, a tensor."""
    NOT_FINITE = "not finite"
    """A distance is no number: infinities or NaN in one of the runs."""


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

    def __str__(self) -> str:
        measured = (
            f"output {self.name} is {self.stored:.4g} from the source network, {self.in_float:.4g} with the "
        )
        measured += "same file computed in float"
        if self.stored == 0:
            return f"there is no error to explain: {measured}"
        if self.in_float >= self.stored:
            return (
                f"the rounding of activations is not the error: {measured}; the rest is weights or conversion"
            )
        head = f"the rounding of activations is {100 * self.share:.0f} % of the error: {measured}"
        return head if round(100 * self.share) == 100 else f"{head}; the rest is weights or conversion"


@dataclass(frozen=True)
class Verdict:
    """What a comparison comes to; ``str()`` is one sentence per line.

    ``differing`` counts tensors of ``compared`` with another value anywhere. ``worst`` is the output that is farthest from
    the reference (a tensor where no output was compared), ``born`` the layer that adds most to the error; both None where
    nothing differs. ``alone``: layers were also judged alone, and ``born`` is the one that errs most there. ``quantisation``
    is None where the file was not also computed in float. ``outputs`` counts the outputs among the compared.
    """

    kind: Kind
    compared: int
    differing: int
    worst: Optional[TensorError] = None
    born: Optional[TensorError] = None
    alone: bool = False
    quantisation: Optional[Quantisation] = None
    outputs: int = 1

    @property
    def sentence(self) -> str:
        """The verdict alone, without layer and quantisation."""
        count = f"{self.differing} of {self.compared} tensors"
        if self.kind is Kind.IDENTICAL:
            return f"identical: all values of {self.compared} tensors" + self._no_output
        if self.kind is Kind.OUTPUTS_IDENTICAL:
            return f"outputs identical; {count} differ on the way"
        if self.kind is Kind.NOT_FINITE:
            return f"not comparable: infinities or NaN make distances of {count} no numbers"
        if self.worst is None:  # a verdict made by hand
            return f"different: {count}{self._no_output}"
        found = self.worst.entire
        return (
            f"different: {count}; farthest is {self.worst.label}: cosine {found.cosine:.5f}, "
            f"Euclidean {found.euclidean:.4g}{self._no_output}"
        )

    @property
    def _no_output(self) -> str:
        return "" if self.outputs else "; no output was compared"

    @property
    def origin(self) -> str:
        """Where the error is born, one sentence; empty where nothing differs."""
        if self.born is None:
            return ""
        found = (self.born.single if self.alone else None) or self.born.entire
        how = "computed alone" if self.alone else "after it"
        return f"most of it is born in {self.born.label}: cosine {found.cosine:.5f} {how}"

    def __str__(self) -> str:
        why = str(self.quantisation) if self.quantisation else ""
        return "\n".join(filter(None, (self.sentence, self.origin, why)))


def judge(found: Comparison) -> Verdict:
    """The verdict on a comparison."""
    tensors, outputs = list(found.tensors), found.outputs
    differing = [tensor for tensor in tensors if tensor.entire.euclidean != 0]
    broken = [tensor for tensor in tensors if not math.isfinite(tensor.entire.euclidean)]
    if broken:
        return Verdict(Kind.NOT_FINITE, len(tensors), len(broken), broken[0], outputs=len(outputs))
    ends = outputs or tensors
    kind = Kind.DIFFERENT
    if not differing:
        kind = Kind.IDENTICAL
    elif all(tensor.entire.euclidean == 0 for tensor in ends):
        kind = Kind.OUTPUTS_IDENTICAL
    why = _quantisation(found, ends)
    if kind is not Kind.DIFFERENT:
        return Verdict(kind, len(tensors), len(differing), quantisation=why, outputs=len(outputs))
    worst = min(ends, key=lambda tensor: (tensor.entire.cosine, -tensor.entire.euclidean))
    alone = found.mode == "single" and any(tensor.single for tensor in tensors)
    born = _worst_alone(tensors) if alone else _steepest(tensors)
    return Verdict(kind, len(tensors), len(differing), worst, born, alone, why, len(outputs))


def _worst_alone(tensors: Sequence[TensorError]) -> Optional[TensorError]:
    """The layer that errs most on the reference's values."""
    judged = [(tensor.single.cosine, tensor) for tensor in tensors if tensor.single]
    return min(judged, key=lambda pair: pair[0])[1] if judged else None


def _steepest(tensors: Sequence[TensorError]) -> Optional[TensorError]:
    """The layer with which the greatest error so far grows most, in order of execution."""
    most, born, step = 0.0, None, 0.0
    for tensor in tensors:
        away = 1.0 - tensor.entire.cosine
        if away - most > step:
            born, step = tensor, away - most
        most = max(most, away)
    return born


def _quantisation(found: Comparison, ends: Sequence[TensorError]) -> Optional[Quantisation]:
    """For the output that is farthest away, where the model's own file was computed in float as well."""
    known = [
        (tensor.entire.cosine, tensor, tensor.reference_to_float)
        for tensor in ends
        if tensor.reference_to_float is not None
    ]
    if not found.own_float or not known:
        return None
    _, tensor, in_float = min(known, key=lambda one: (one[0], -one[1].entire.euclidean))
    return Quantisation(tensor.name, tensor.entire.euclidean, in_float.euclidean)
