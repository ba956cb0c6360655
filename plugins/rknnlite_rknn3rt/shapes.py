"""The shapes of a dynamic model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rknnlite.abi.rknn3_enums import RKNN3_MAX_DYNAMIC_SHAPE_NUM
from rknnlite.abi.rknn3_enums import RKNN3QueryCmd as Query
from rknnlite.abi.rknn3_types import RKNN3ShapeConfig
from rknnlite.errors import ParamInvalid, RknnError
from rknnlite.tensor import TensorAttr

from .attrs import Tensor3, from_shape
from .native_context import NativeContext

__all__ = ["ShapeTable"]


@dataclass(frozen=True)
class ShapeTable:
    """``shapes``: one list (the shape of each input, as a program sees it) per shape id; empty when static."""

    shapes: list[list[tuple[int, ...]]] = field(default_factory=list)

    @classmethod
    def read(cls, handle: NativeContext, inputs: Sequence[Tensor3], n_out: int) -> ShapeTable:
        """Ask the library; raises RknnError for an answer that cannot be."""
        config = RKNN3ShapeConfig()
        try:
            handle.query(Query.RKNN3_QUERY_DYNAMIC_SHAPE_CONFIG, config)
        except RknnError as error:
            if error.native_code in (-1, -2):  # a runtime that answers so for static models
                return cls()
            raise
        count = config.n_shapes
        if count > RKNN3_MAX_DYNAMIC_SHAPE_NUM:
            raise RknnError(f"the library answers {count} shapes; {RKNN3_MAX_DYNAMIC_SHAPE_NUM} are possible")
        return (
            cls([_inputs(info, inputs) for info in _ask(handle, count, len(inputs), n_out)])
            if count
            else cls()
        )

    def find(self, label: str, shapes: Sequence[Sequence[int]], inputs: Sequence[TensorAttr]) -> int:
        """Number of a set of input shapes; raises ParamInvalid listing the legal ones."""
        wanted = [tuple(int(dim) for dim in shape) for shape in shapes]
        if not self.shapes:
            raise ParamInvalid(f"{label} has static shapes: {[list(attr.dims) for attr in inputs]}")
        if wanted not in self.shapes:
            legal = "; ".join(str([list(shape) for shape in entry]) for entry in self.shapes)
            given = [list(shape) for shape in wanted]
            raise ParamInvalid(f"{label}: input shapes {given} are not among the model's: {legal}")
        return self.shapes.index(wanted)


def _ask(handle: NativeContext, count: int, n_in: int, n_out: int) -> Any:
    """``rknn3_shape_info`` of every shape; the arrays inside are ours."""
    attr, infos = handle.abi.RKNN3TensorAttr, (handle.abi.RKNN3ShapeInfo * count)()
    room = max(n_out, handle.in_out_num()[1])
    for number, info in enumerate(infos):
        info.shape_id, info.n_inputs, info.n_outputs = number, n_in, room
        info.input_attrs, info.output_attrs = (attr * n_in)(), (attr * room)()
    handle.query(Query.RKNN3_QUERY_DYNAMIC_SHAPE_INFO, infos)
    for info in infos:
        if info.n_inputs != n_in:
            raise RknnError(
                f"the library answers {info.n_inputs} inputs for shape {info.shape_id}, not {n_in}"
            )
    return infos


def _inputs(info: Any, known: Sequence[Tensor3]) -> list[tuple[int, ...]]:
    return [from_shape(info.input_attrs[i], True, tensor).logical.dims for i, tensor in enumerate(known)]
