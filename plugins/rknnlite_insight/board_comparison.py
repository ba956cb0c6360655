"""A model on a board beside the simulator on this machine: the manual's ``runtime_error``."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ContextInvalid, DeviceUnavailable, RknnError, RunTimeout
from rknnlite.spi import Context

from .compared_run import Run, Side
from .comparison import BoardRun, distance
from .dumps import Dump
from .tensor_error import Distance

__all__ = ["BoardSide"]

Array = NDArray[Any]
Errors = tuple[Optional[Distance], Optional[Distance]]
_ALONE, _SIMULATED = "single", "single_sim"
_LOST = (DeviceUnavailable, ContextInvalid, RunTimeout)
"""Errors that say that the board is gone, not that it cannot do what it was asked."""


class BoardSide:
    """The run on a board.

    Its layers alone are what a board that takes values for them makes of the reference's (column ``single``). One that
    only shows its tensors is judged as the vendor's toolkit does (``single_sim``): the simulator computes each layer on the
    board's values, and what differs is the board's own.
    """

    def __init__(self, side: Side, stack: ExitStack) -> None:
        if not isinstance(side, (Context, Dump)):
            side = Dump.read(side)
        self._run = Run(side, stack, {})
        self._alone: Dump | None = None
        self._single = ""
        self._notes: list[str] = []
        self._unseen: list[str] = []
        self._differing: list[str] = []

    @property
    def label(self) -> str:
        """What ran, for whoever waits for it."""
        return self._run.label

    def make(self, inputs: Any, layout: str | None, simulator: Run) -> None:
        """Run the model there, unless it is a dump already; its tensors get the simulator's names."""
        self._run.make(inputs, layout, simulator, None, ())
        if self._run.dump.of_board:
            self._run.take_names(simulator.dump)
        if self._run.lacks:
            self._notes.append(f"only the outputs of the board are judged: {self._run.lacks}")

    def make_single(self, simulator: Run, golden: Dump, inputs: Any, layout: str | None) -> None:
        """Each layer alone, on the reference's values or on the board's own."""
        self._single = _ALONE
        if self._run.lacks:
            self._notes.append(
                "no layer of the board was judged alone, as it does not show what its layers compute on"
            )
            return
        why = f"{self._run.label} was dumped before"
        if self._run.context is not None:
            try:
                known = _only(golden, simulator.dump.names)
                self._alone = self._run.make_single(known, inputs, layout)
                return
            except RknnError as error:
                if isinstance(error, _LOST):
                    raise
                why = str(error)
        self._alone = simulator.make_single(self._run.dump, inputs, layout, _SIMULATED)
        self._single = _SIMULATED
        self._notes.append(
            f"{_SIMULATED}: each layer of the board against the simulator's on the board's own values, as the board "
            f"computes no layer on the reference's ({why})"
        )

    def errors(self, name: str, simulated: Array, golden: Array) -> Errors:
        """The errors of one tensor after a whole run and alone; None where the board does not show it."""
        value = self._run.value_of(name, simulated.size)
        if value is None:
            self._unseen.append(name)
            return None, None
        if not np.array_equal(value.reshape(-1), simulated.reshape(-1), equal_nan=value.dtype.kind == "f"):
            self._differing.append(name)
        return distance(value, golden), self._error_alone(name, value, golden)

    def _error_alone(self, name: str, value: Array, golden: Array) -> Distance | None:
        if self._alone is None or name not in self._alone.names:
            return None
        alone = self._alone.value(name)
        if alone.size != golden.size:
            return None
        return distance(value, alone) if self._single == _SIMULATED else distance(alone, golden)

    def summary(self) -> BoardRun:
        """What there is to say about the run, once all tensors were asked for."""
        return BoardRun(self._run.title, self._single, self._notes, self._unseen, self._differing)


def _only(dump: Dump, names: Sequence[str]) -> Dump:
    """The tensors that the model has a name for: no others need travel."""
    known = set(names)
    return Dump(dump.folder, [tensor for tensor in dump.tensors if tensor.name in known], dump.info)
