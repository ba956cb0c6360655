"""How far two tensors are apart, and what is said about one of a model's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

__all__ = ["Distance", "TensorError"]


@dataclass(frozen=True)
class Distance:
    """How far two tensors are apart: cosine of the angle between them (1: none), Euclidean distance (0: none)."""

    cosine: float
    euclidean: float

    def __str__(self) -> str:
        return f"{self.cosine:.5f} | {self.euclidean:.4g}"


@dataclass(frozen=True)
class TensorError:
    """One tensor of the model against the reference.

    ``entire`` is after a whole run, with the errors of all layers before; ``single`` after this layer alone computed
    on the reference's values (None where that was not asked for). ``to_float`` is how far the model is from a network in
    float, ``reference_to_float`` the reference, where one was given and has the tensor. ``time_us`` is the layer's time on
    the model's side. ``length`` is the Euclidean length of the reference's tensor (a distance divided by it is the relative
    error), ``step`` that by which neighbouring integers of the model's tensor differ, and ``stored`` how far the reference's
    tensor is from itself once it is rounded to those integers (both None where the tensor is not quantised). ``unseen`` tensors of
    the model between the one before and this have no counterpart: ``single`` has their errors, too. ``runtime_entire`` and
    ``runtime_single`` are the errors of the same model on a board, None where it did not show the tensor.
    """

    name: str
    op: str
    shape: tuple[int, ...]
    role: str
    entire: Distance
    single: Optional[Distance] = None
    time_us: Optional[float] = None
    to_float: Optional[Distance] = None
    reference_to_float: Optional[Distance] = None
    length: Optional[float] = None
    step: Optional[float] = None
    stored: Optional[Distance] = None
    unseen: int = 0
    runtime_entire: Optional[Distance] = None
    runtime_single: Optional[Distance] = None

    @property
    def label(self) -> str:
        """``[Conv] name`` as tables show it."""
        return f"[{'Input' if self.role == 'input' else self.op}] {self.name}"
