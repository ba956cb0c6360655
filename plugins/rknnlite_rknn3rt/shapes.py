"""The shapes of a dynamic model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rknnlite.abi.rknn3_enums import RKNN3_MAX_DYNAMIC_SHAPE_NUM
from rknnlite.abi.rknn3_enums import RKNN3QueryCmd as Query
from rknnlite.abi.rknn3_types import RKNN3ShapeConfig
from rknnlite.errors import RknnError

from .attrs import Tensor3, from_shape
from .native_context import NativeContext

__all__ = ["ShapeTable"]


@dataclass(frozen=True)
class ShapeTable:
    """``shapes``: one list (the shape of each input, as a program sees it) per shape id; empty when static."""

    shapes: list[list[tuple[int, ...]]] = field(default_factory=list)

    @classmethod
    def read(cls, context: NativeContext, inputs: Sequence[Tensor3], n_out: int) -> ShapeTable:
        """Ask the library; raises RknnError for an answer that cannot be."""
        config = RKNN3ShapeConfig()
        try:
            context.query(Query.RKNN3_QUERY_DYNAMIC_SHAPE_CONFIG, config)
        except RknnError as error:
            if error.native_code in (-1, -2):  # a runtime that answers so for static models
                return cls()
            raise
        count = config.n_shapes
        if count > RKNN3_MAX_DYNAMIC_SHAPE_NUM:
            raise RknnError(f"the library answers {count} shapes; {RKNN3_MAX_DYNAMIC_SHAPE_NUM} are possible")
        return (
            cls([_inputs(info, inputs) for info in _ask(context, count, len(inputs), n_out)])
            if count
            else cls()
        )


def _ask(context: NativeContext, count: int, n_in: int, n_out: int) -> Any:
    """``rknn3_shape_info`` of every shape; the arrays inside are ours."""
    attr, infos = context.abi.RKNN3TensorAttr, (context.abi.RKNN3ShapeInfo * count)()
    room = max(n_out, context.in_out_num()[1])
    for number, info in enumerate(infos):
        info.shape_id, info.n_inputs, info.n_outputs = number, n_in, room
        info.input_attrs, info.output_attrs = (attr * n_in)(), (attr * room)()
    context.query(Query.RKNN3_QUERY_DYNAMIC_SHAPE_INFO, infos)
    for info in infos:
        if info.n_inputs != n_in:
            raise RknnError(
                f"the library answers {info.n_inputs} inputs for shape {info.shape_id}, not {n_in}"
            )
    return infos


def _inputs(info: Any, known: Sequence[Tensor3]) -> list[tuple[int, ...]]:
    return [from_shape(info.input_attrs[i], True, tensor).logical.dims for i, tensor in enumerate(known)]
