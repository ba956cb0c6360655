"""Why a network's accuracy is gone, as data and in words."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Optional

from .calibration import SetRange
from .edge import Edge

__all__ = ["Cause", "Diagnosis", "Harm", "HybridStep"]


class Cause(enum.Enum):
    """What was found; the value is the headline."""

    NONE = "Nothing is wrong: the outputs have the noise of rounding"
    OVERFLOW = "Values are too large for float16"
    MEAN = "The file has another mean or deviation than the network was trained with"
    COLOUR_ORDER = "The colours are swapped"
    CALIBRATION = "The calibration set is not like these inputs"
    SATURATION = "A layer saturates"
    WIDE_RANGE = "A layer's range is wider than its values"
    LARGE_CHANNELS = "A few large channels take the steps from the others"
    WEIGHTS = "A layer's weights are coarse in 8 bits"
    OTHER_NETWORK = "A layer computes something else than the reference's"
    ROUNDING = "The rounding of many layers adds up"


@dataclass(frozen=True)
class Harm:
    """An edge (tensors of the same values) and the relative error at the outputs when it alone is rounded, all else in float;
    ``clipped``: when its values are only kept within its range (None: not tried)."""

    tensors: tuple[str, ...]
    layers: tuple[str, ...]
    outputs: float
    clipped: Optional[float] = None


@dataclass(frozen=True)
class HybridStep:
    """A trial: ``layers`` in float16, as the tensors that they make are called in the ``.rknn`` file, and the cosine and relative
    error of the output that is farthest from the reference. ``added`` are those that this step added, ``converter`` the names
    that the converter's ``custom_quantize_layers`` takes for all of them."""

    layers: tuple[str, ...]
    added: tuple[str, ...]
    converter: tuple[str, ...]
    cosine: float
    error: float


@dataclass(frozen=True)
class Diagnosis:
    """``where`` are tensors with the cause, the first one first; ``sentences`` say how it is known, ``remedy`` what to do.

    ``also`` are causes that were found beside it. ``outputs`` is the relative error of the output that is farthest after whole
    runs, ``cosine`` its cosine (infinite and NaN where one has such values). ``edges`` has every tensor that both sides have,
    ``harms`` the edges whose rounding was tried, the most harmful first; ``weights`` is the harm of the weights alone (None: not
    tried). ``hybrid``: the steps that were tried until the cosine was ``target``; ``calibration``: ranges on a calibration set,
    where one was given.
    """

    model: str
    reference: str
    samples: int
    cause: Cause
    where: tuple[str, ...]
    sentences: Sequence[str]
    remedy: str
    outputs: float
    cosine: float
    edges: dict[str, Edge]
    also: tuple[Cause, ...] = ()
    harms: Sequence[Harm] = field(default=())
    weights: Optional[float] = None
    hybrid: Sequence[HybridStep] = field(default=())
    target: Optional[float] = None
    calibration: Sequence[SetRange] = field(default=())

    @property
    def headline(self) -> str:
        """The cause in a few words, with the tensor."""
        place = f": {self.where[0]}" if self.where else ""
        return f"{self.cause.value}{place}"

    def __str__(self) -> str:
        return "\n".join([self.headline, *self.sentences, *([f"-> {self.remedy}"] if self.remedy else [])])
