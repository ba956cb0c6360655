"""Brings the tensors of all runs together: one row per tensor that model and reference both have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import RknnError

from .board_comparison import BoardSide
from .compared_run import Run
from .comparison import Comparison, distance, length
from .dumps import Dump, DumpedTensor
from .stored_values import stored_values
from .tensor_error import Distance, TensorError

__all__ = ["Steps", "match"]

Array = NDArray[Any]


class Steps:
    """Tells somebody who wants to know what is done and what comes next."""

    def __init__(self, tell: Callable[[int, int, str], None] | None, total: int) -> None:
        self._tell, self._total, self._begun = tell, total, 0

    def next(self, what: str) -> None:
        """One more is begun."""
        if self._tell is not None:
            self._tell(self._begun, self._total, what)
        self._begun += 1


def match(
    model: Run,
    reference: Run,
    mode: str,
    alone: Dump | None,
    third: Run | None,
    own: bool,
    board: BoardSide | None,
    progress: Callable[[int, int, str], None] | None,
) -> Comparison:
    """Every tensor of the model that the reference has under the same name and size; raises RknnError for none."""
    golden = set(reference.dump.names)
    found: list[TensorError] = []
    unmatched: list[str] = []
    unseen = 0
    behind_relu = {name for run in (model, reference) for name in run.dump.info.get("before_relu", ())}
    steps = Steps(progress, len(model.dump.names))
    for name in model.dump.names:
        steps.next(name)
        value = model.dump.value(name)
        other = reference.dump.value(name) if name in golden else None
        if other is None or other.size != value.size:
            unmatched.append(name)
            unseen += 1
            continue
        entry = model.dump.entry(name)
        real = third.value_of(name, value.size) if third is not None else None
        if name in behind_relu:  # judged behind its own Relu: what lies below zero is seen by nobody
            value, other = np.maximum(value, 0), np.maximum(other, 0)
            real = None if real is None else np.maximum(real, 0)
        ran, ran_alone = (None, None) if board is None else board.errors(name, value, other)
        found.append(
            TensorError(
                name,
                entry.op,
                tuple(value.shape),
                entry.role,
                distance(value, other),
                _alone(model.dump, alone, name, value, other, name in behind_relu),
                _time(model.dump, name),
                None if real is None else distance(value, real),
                None if real is None else distance(other, real),
                length(other),
                entry.scale,
                _stored(other, entry),
                unseen,
                ran,
                ran_alone,
            )
        )
        unseen = 0
    if not found:
        raise RknnError(
            f"{model.label} and {reference.label} have no tensor of the same name and size; are they the same network?"
        )
    compared = {tensor.name for tensor in found}
    missing = [name for name in reference.dump.names if name not in compared]
    return Comparison(
        model.title,
        reference.title,
        mode,
        found,
        unmatched,
        missing,
        runtime=model.dump.of_board,
        floating=third.title if third is not None else "",
        own_float=own,
        board=board.summary() if board else None,
    )


def _alone(
    dump: Dump, alone: Dump | None, name: str, value: Array, golden: Array, behind_relu: bool
) -> Distance | None:
    """The error of a layer alone: on golden values, or the board's result against the reference on the board's values."""
    if alone is None:
        return None
    found = np.maximum(alone.value(name), 0) if behind_relu else alone.value(name)
    return distance(value if dump.of_board else found, found if dump.of_board else golden)


def _stored(golden: Array, entry: DumpedTensor) -> Distance | None:
    """What rounding to a tensor's own integers, with their range, takes from the values of the other side."""
    held = stored_values(golden, entry) if entry.scale else None
    return None if held is None else distance(held, golden)


def _time(dump: Dump, name: str) -> float | None:
    times = [tensor.time_us for tensor in dump.tensors if tensor.name == name and tensor.time_us is not None]
    return sum(times) if times else None
