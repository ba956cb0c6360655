"""The operator."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite import CustomOp
from rknnlite.errors import ParamInvalid
from rknnlite.spi import OpContext

__all__ = ["DualResidual"]


class DualResidual(CustomOp):
    """``x * alpha - y`` and ``y * alpha - x`` for two inputs of one shape; attribute ``alpha``, float."""

    op_type = "cstDualResidual"

    def shape_infer(
        self, node: Any, in_shapes: list[list[int]], in_dtypes: list[Any]
    ) -> tuple[list[list[int]], list[Any]]:
        return [in_shapes[0], in_shapes[1]], [in_dtypes[0], in_dtypes[1]]

    def init(self, ctx: OpContext, inputs: list[NDArray[Any]], outputs: list[NDArray[Any]]) -> None:
        if len(inputs) != 2 or inputs[0].shape != inputs[1].shape:
            raise ParamInvalid(
                f"two inputs of one shape are needed, there are {[list(a.shape) for a in inputs]}"
            )
        ctx.state = np.float32(ctx.attr("alpha"))

    def compute(self, ctx: OpContext, inputs: list[NDArray[Any]], outputs: list[NDArray[Any]]) -> None:
        x, y = inputs
        np.subtract(x * ctx.state, y, out=outputs[0])
        np.subtract(y * ctx.state, x, out=outputs[1])
