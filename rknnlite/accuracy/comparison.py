"""Distances between tensors, and the table of them in the manual's format."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from .tensor_error import Distance, TensorError

__all__ = ["Comparison", "Distance", "TensorError", "distance", "length"]

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
class Comparison:
    """All tensors that both sides have, in the model's order; ``str()`` is the table.

    ``unmatched`` are tensors of the model that the reference does not have under the same name with as many
    elements, mostly those the converter made; ``missing`` are the reference's that the model does not have, mostly
    those that the converter fused away. ``runtime``: the model's tensors were dumped on a board. ``floating``: the network
    in float that both sides were measured by as well; ``own_float``: it is the model's own file, computed in float.
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

    def columns(self) -> list[tuple[str, list[Optional[Distance]]]]:
        """The distances of all tensors, column by column, with their heads."""
        found: list[tuple[str, list[Optional[Distance]]]] = [("entire", [t.entire for t in self.tensors])]
        if self.mode == "single":
            found.append(("single", [t.single for t in self.tensors]))
        if self.floating:
            found.append(("float", [t.to_float for t in self.tensors]))
            found.append(("reference to float", [t.reference_to_float for t in self.tensors]))
        return found

    def __str__(self) -> str:
        columns = self.columns()
        labels = [tensor.label for tensor in self.tensors]
        width = max(map(len, [_NAME, *labels])) + 2
        texts = [str(found) for _, cells in columns for found in cells if found]
        cell = max(map(len, ["cos | euc", *texts, *(head for head, _ in columns)])) + 2
        head = _NAME.ljust(width) + "".join(column.ljust(cell) for column, _ in columns)
        units = " " * width + "cos | euc".ljust(cell) * len(columns)
        lines = [f"model: {self.model}", f"reference: {self.reference}"]
        lines += [f"network in float: {self.floating}"] if self.floating else []
        lines += [" " * width + "runtime_error"] if self.runtime else []
        lines += [head.rstrip(), units.rstrip()]
        lines.append("-" * (width + cell * len(columns)))
        for row, label in enumerate(labels):
            found = [cells[row] for _, cells in columns]
            lines.append((label.ljust(width) + "".join(str(f or "\\").ljust(cell) for f in found)).rstrip())
        lines.append("-" * (width + cell * len(columns)))
        lines.append(f"{len(self.tensors)} tensors compared")
        lines += _names("only in the model", self.unmatched) + _names("only in the reference", self.missing)
        return "\n".join(lines)

    def plot(self, path: str | os.PathLike[str]) -> Path:
        """Draw distances and times per layer to a PNG; needs the extra ``plot`` (matplotlib)."""
        from .plot import draw

        return draw(self.tensors, f"{self.model}\nagainst {self.reference}", path)


def _names(what: str, names: Sequence[str], limit: int = 6) -> list[str]:
    if not names:
        return []
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return [f"{len(names)} {what}: {', '.join(names[:limit])}{more}"]
