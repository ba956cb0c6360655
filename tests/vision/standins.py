"""Heads that find what a test tells them, whatever the network says: for tasks of which no small network lies here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rknnlite_vision.heads.head import Head, Limits, Task
from rknnlite_vision.results import Detections, Result

from rknnlite.tensor import TensorAttr

__all__ = ["boxes", "standing_in"]


def boxes(*places: tuple[float, float, float, float], **more: Any) -> Detections:
    """Things at these places, the surest first, each of a class of its own."""
    count = len(places)
    scores = 0.9 - 0.1 * np.arange(count)
    return Detections(np.reshape(np.array(places), (-1, 4)), scores, np.arange(count), **more)


def standing_in(task: Task, result: Result | Callable[[], Result], classes: int = 0) -> Any:
    """A function in the place of ``recognise``."""

    class StandIn(Head):
        family = f"a stand-in that does {task.value}"

        def __init__(self, inputs: Sequence[TensorAttr], outputs: Sequence[TensorAttr]) -> None:
            super().__init__(inputs, outputs)
            self.task, self.classes = task, classes
            _, height, width, _ = inputs[0].dims
            self.size = (width, height)

        def _picture(self, outputs: Sequence[NDArray[Any]], limits: Limits) -> Result:
            return result() if callable(result) else result

    return lambda inputs, outputs, hint="", name="", tasks=(): StandIn(inputs, outputs)
