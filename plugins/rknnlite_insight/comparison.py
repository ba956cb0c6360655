"""Distances between tensors, and the table of them in the manual's format."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_backend.perf import UNKNOWN

from .tensor_error import Distance, TensorError

__all__ = ["BoardRun", "Comparison", "Distance", "Group", "TensorError", "distance", "length"]

Array = NDArray[Any]
_BLOCK = 1 << 20  # elements that are widened to float64 at a time
_NAME = "layer_name"


def distance(a: Array, b: Array) -> Distance:
    """Distance of two tensors of equal size; two tensors of zeros are the same, one of them is at a right angle.

    Equal infinities and NaN are the same where all else is, too.
    """
    flat_a, flat_b = a.reshape(-1), b.reshape(-1)
    product = square_a = square_b = square = 0.0
    for start in range(0, len(flat_a), _BLOCK):
        part_a = flat_a[start : start + _BLOCK].astype(np.float64)
        part_b = flat_b[start : start + _BLOCK].astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            product += float(part_a @ part_b)
            square_a += float(part_a @ part_a)
            square_b += float(part_b @ part_b)
            part_a -= part_b
            square += float(part_a @ part_a)
    if not np.isfinite(square) and np.array_equal(flat_a, flat_b, equal_nan=True):
        return Distance(1.0, 0.0)
    size = float(np.sqrt(square_a)) * float(np.sqrt(square_b))
    if size == 0.0:
        return Distance(1.0 if square == 0.0 else 0.0, float(np.sqrt(square)))
    return Distance(product / size, float(np.sqrt(square)))


def length(a: Array) -> float:
    """Euclidean length of a tensor."""
    flat, square = a.reshape(-1), 0.0
    for start in range(0, len(flat), _BLOCK):
        part = flat[start : start + _BLOCK].astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            square += float(part @ part)
    return float(np.sqrt(square))


@dataclass(frozen=True)
class BoardRun:
    """The run of the same model on a board, beside the simulator's.

    ``single`` is the head of its second column, empty where no layer was asked for alone: ``single`` is the error of a layer
    that computes on the reference's values, ``single_sim`` the distance from the simulator's layer on the board's values.
    ``notes`` say what the board could not do, ``unseen`` which compared tensors it does not show, ``differing`` in which of the
    others its values are not the simulator's.
    """

    title: str
    single: str = ""
    notes: Sequence[str] = field(default=())
    unseen: Sequence[str] = field(default=())
    differing: Sequence[str] = field(default=())

    def lines(self, compared: int) -> list[str]:
        """What stands below the table, with the number of tensors that were compared."""
        shown = compared - len(self.unseen)
        same = shown - len(self.differing)
        found = [f"the board has the simulator's values in {same} of {shown} tensors"]
        found += _names("with other values on the board", self.differing)
        return [*found, *_names("not dumped by the board", self.unseen), *self.notes]


class Group(NamedTuple):
    """Columns of the table under one head: ``simulator_error``, ``runtime_error``, or none.

    ``columns`` are heads and a distance per tensor, ``blank`` what stands where there is none.
    """

    head: str
    columns: Sequence[tuple[str, Sequence[Optional[Distance]]]]
    blank: str = UNKNOWN


@dataclass(frozen=True)
class Comparison:
    """All tensors that both sides have, in the model's order; ``str()`` is the table.

    ``unmatched`` are tensors of the model that the reference does not have under the same name with as many
    elements, mostly those the converter made; ``missing`` are the reference's that the model does not have, mostly
    those that the converter fused away. ``runtime``: the model's tensors were dumped on a board. ``floating``: the network
    in float that both sides were measured by as well; ``own_float``: it is the model's own file, computed in float. ``board``:
    the run of the same model on a board, whose errors the tensors have, too.
    """

    model: str
    reference: str
    mode: str
    tensors: Sequence[TensorError]
    unmatched: Sequence[str] = field(default=())
    missing: Sequence[str] = field(default=())
    runtime: bool = False
    floating: str = ""
    own_float: bool = False
    board: Optional[BoardRun] = None

    @property
    def outputs(self) -> list[TensorError]:
        """The outputs of the network."""
        return [tensor for tensor in self.tensors if tensor.role == "output"]

    @property
    def worst(self) -> Optional[TensorError]:
        """The layer that errs most: by ``single`` where it was measured, else by ``entire``."""
        return min(self.tensors, key=lambda t: (t.single or t.entire).cosine, default=None)

    def __getitem__(self, name: str) -> TensorError:
        for tensor in self.tensors:
            if tensor.name == name:
                return tensor
        known = ", ".join(tensor.name for tensor in self.tensors[:8])
        raise KeyError(f"{name!r} is not compared; there are {known}, ...")

    @property
    def on_board(self) -> Optional[Comparison]:
        """The run on the board against the same reference, as a comparison of its own; None where there was none."""
        if self.board is None:
            return None
        found, unseen = [], 0
        for tensor in self.tensors:
            unseen += tensor.unseen
            if tensor.runtime_entire is None:
                unseen += 1
                continue
            about = {"entire": tensor.runtime_entire, "single": tensor.runtime_single, "unseen": unseen}
            cleared = {"runtime_entire": None, "runtime_single": None, "time_us": None}
            found.append(replace(tensor, **about, **cleared))  # type: ignore[arg-type]
            unseen = 0
        hidden = [*self.board.unseen, *self.unmatched]
        return Comparison(
            self.board.title, self.reference, self.mode, found, hidden, self.missing, runtime=True
        )

    def columns(self) -> list[tuple[str, Sequence[Optional[Distance]]]]:
        """The distances of all tensors, column by column, with their heads."""
        return [column for group in self.groups() for column in group.columns]

    def groups(self) -> list[Group]:
        """The columns under the heads of the manual's table."""
        rows = self.tensors
        own: list[tuple[str, Sequence[Optional[Distance]]]] = [("entire", [t.entire for t in rows])]
        if self.mode == "single":
            own.append(("single", [t.single for t in rows]))
        found = [Group("simulator_error" if self.board else "runtime_error" if self.runtime else "", own)]
        if self.board is not None:
            there: list[tuple[str, Sequence[Optional[Distance]]]] = [
                ("entire", [t.runtime_entire for t in rows])
            ]
            if self.board.single:
                there.append((self.board.single, [t.runtime_single for t in rows]))
            found.append(Group("runtime_error", there, "not dumped"))
        if self.floating:
            third = [
                ("float", [t.to_float for t in rows]),
                ("reference to float", [t.reference_to_float for t in rows]),
            ]
            found.append(Group("", third))
        return found

    def __str__(self) -> str:
        groups = self.groups()
        columns = [
            (head, [str(d or group.blank) for d in cells])
            for group in groups
            for head, cells in group.columns
        ]
        labels = [tensor.label for tensor in self.tensors]
        width = max(map(len, [_NAME, *labels])) + 2
        cell = max(len(text) for head, cells in columns for text in ("cos | euc", head, *cells)) + 2
        rule = "-" * (width + cell * len(columns))

        def row(name: str, texts: Iterable[str]) -> str:
            return (name.ljust(width) + "".join(text.ljust(cell) for text in texts)).rstrip()

        heads = "".join(group.head.ljust(cell * len(group.columns)) for group in groups)
        lines = [f"model: {self.model}", f"reference: {self.reference}"]
        lines += [f"board: {self.board.title}"] if self.board else []
        lines += [f"network in float: {self.floating}"] if self.floating else []
        lines += [row("", [heads])] if heads.strip() else []
        lines += [row(_NAME, [head for head, _ in columns]), row("", ["cos | euc"] * len(columns)), rule]
        lines += [row(label, [cells[i] for _, cells in columns]) for i, label in enumerate(labels)]
        lines += [rule, f"{len(self.tensors)} tensors compared"]
        lines += _names("only in the model", self.unmatched) + _names("only in the reference", self.missing)
        return "\n".join([*lines, *(self.board.lines(len(self.tensors)) if self.board else [])])

    def plot(self, path: str | os.PathLike[str]) -> Path:
        """Draw distances and times per layer to a PNG; needs the extra ``plot`` (matplotlib)."""
        from .plot import draw

        return draw(self.tensors, f"{self.model}\nagainst {self.reference}", path)


def _names(what: str, names: Sequence[str], limit: int = 6) -> list[str]:
    if not names:
        return []
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return [f"{len(names)} {what}: {', '.join(names[:limit])}{more}"]
