"""Models with dynamic shapes: which of the legal ones is meant, and errors that say which there are."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import InputInvalid, ParamInvalid, RknnError
from ..tensor import TensorAttr

__all__ = ["ShapesRefused", "find_shapes"]

Shapes = list[tuple[int, ...]]


class ShapesRefused(InputInvalid):
    """The arrays have shapes that the model lacks: ``given``, one per input in order, rank 4 as NHWC."""

    def __init__(self, text: str, given: Shapes) -> None:
        super().__init__(text)
        self.given = given


def find_shapes(
    label: str,
    wanted: Sequence[Sequence[int]],
    legal: Sequence[Shapes],
    inputs: Sequence[TensorAttr],
) -> int:
    """For ``set_shapes``: the number of the entry of ``legal`` that is wanted.

    Args:
        label: name of the model, for the errors.
        wanted: one shape per input.
        legal: ``Context.shapes``.
        inputs: ``Context.inputs``.

    Raises:
        ParamInvalid: the model is static; or it has no such shapes, with the code -1, which librknnrt answers. The text
            lists those that it has.
    """
    shapes = [tuple(int(dim) for dim in shape) for shape in wanted]
    if not legal:
        raise ParamInvalid(f"{label} has static shapes: {[list(attr.dims) for attr in inputs]}")
    for number, candidate in enumerate(legal):
        if shapes == candidate:
            return number
    listed = "; ".join(str([list(shape) for shape in candidate]) for candidate in legal)
    raise ParamInvalid(
        f"{label}: input shapes {[list(shape) for shape in shapes]} are not among the model's: {listed}",
        code=RknnError.code,
    )
