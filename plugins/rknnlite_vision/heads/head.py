"""What all heads are: attributes of outputs, told once, and outputs of a frame, to what is found in it."""

from __future__ import annotations

import abc
import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from rknnlite.errors import InputInvalid, ModelInvalid
from rknnlite.tensor import TensorAttr

from ..results import Result

__all__ = ["ASKED", "Head", "Limits", "Task", "UnknownHead"]

Array = NDArray[Any]


class Task(str, enum.Enum):
    """What a head tells of a picture."""

    DETECT = "detect"
    POSE = "pose"
    ROTATED = "oriented boxes"
    LINES = "lines of text"
    INSTANCE = "instance masks"
    SEMANTIC = "semantic masks"
    CLASSIFY = "classify"
    READ = "read"
    EMBED = "embed"


ASKED: dict[str, tuple[Task, ...]] = {
    "detect": (Task.DETECT, Task.ROTATED, Task.LINES, Task.POSE, Task.INSTANCE),
    "classify": (Task.CLASSIFY,),
    "segment": (Task.INSTANCE, Task.SEMANTIC),
    "pose": (Task.POSE,),
    "read": (Task.READ,),
    "embed": (Task.EMBED,),
}
"""What heads each command takes, and each route of a server (``embed`` is a route alone); those of ``detect`` have boxes."""


@dataclass(frozen=True)
class Limits:
    """What of the found is kept.

    Attributes:
        score: least score, 0 to 1.
        overlap: of two boxes of one class that overlap more (intersection over union) the better one is kept.
        most: rows at most, the best.
        across: suppress between classes, too.

    Examples:
        >>> Limits().score
        0.25
    """

    score: float = 0.25
    overlap: float = 0.45
    most: int = 300
    across: bool = False


class UnknownHead(ModelInvalid):
    """Outputs that no decoder here knows; the text lists what was seen."""


class Head(abc.ABC):
    """A decoder for the outputs of one network.

    Attributes:
        family: what was recognised, e.g. ``"YOLOv8, 9 outputs, 80 classes"``.
        task: what it tells.
        classes: how many there are; 0 where that has no meaning.
        size: width and height of the network's input in pixels.
        lines: it takes lines of text with their proportions kept, what is behind them left free.
    """

    family: str
    task: Task
    classes: int
    size: tuple[int, int]
    lines: bool = False

    def __init__(self, inputs: Sequence[TensorAttr], outputs: Sequence[TensorAttr]) -> None:
        self.outputs = list(outputs)
        """Attributes in the order of the network: shapes, and quantisation of integers."""
        self._types = [attr.dtype.numpy for attr in outputs]
        self.labels: Sequence[str] = ()
        """Names of the classes, or the characters of a head that reads: ``VisionModel`` sets those that are given."""

    def decode(self, outputs: Sequence[Array], limits: Limits = Limits()) -> list[Result]:
        """One result for each picture of the batch, places in pixels of the network's input.

        Args:
            outputs: as ``Context.infer(..., raw=True)`` stores them (int8, uint8, float16) or float32, in the order and
                shapes of the network. Integers are compared with the threshold as they are; only what passes becomes float.

        Raises InputInvalid where their number, shapes or element types are others, or their numbers cannot be what they should.
        """
        if len(outputs) != len(self.outputs):
            raise InputInvalid(f"{self.family}: {len(outputs)} outputs given, {len(self.outputs)} needed")
        for attr, own, array in zip(self.outputs, self._types, outputs):
            if array.dtype != own and array.dtype.kind != "f":
                raise InputInvalid(
                    f"{self.family}: output {attr.name} is {array.dtype}, must be {own} as stored, or a float"
                )
            if array.shape != attr.dims:
                outputs = [self._formed(attr, array) for attr, array in zip(self.outputs, outputs)]
                break
        batch = self.outputs[0].dims[0]
        if batch == 1:
            return [self._picture(outputs, limits)]
        return [self._picture([array[n : n + 1] for array in outputs], limits) for n in range(batch)]

    def _formed(self, attr: TensorAttr, array: Array) -> Array:
        """Without a last dimension of 1 that files of older toolkits have; raise InputInvalid for another shape."""
        if array.shape not in (attr.dims, (*attr.dims, 1)):
            raise InputInvalid(
                f"{self.family}: output {attr.name} is {list(array.shape)}, must be {list(attr.dims)}"
            )
        return array.reshape(attr.dims)

    @abc.abstractmethod
    def _picture(self, outputs: Sequence[Array], limits: Limits) -> Result:
        """What is found in one picture; each output with a batch of 1."""
