"""Functions of sums behind a convolution, as numbers of its op; ``ops/requantise.py`` defines them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rknnlite_graph import unary_functions
from rknnlite_graph.activation_tables import dense_table
from rknnlite_graph.node_view import NodeView
from rknnlite_graph.operators import TABLE_FUNCTIONS

from ...ops.requantise import by_table, index_factor
from ...values import centred_range
from .kinds import FUNCTION_NUMBERS, Flag, Op
from .writer import Writer, demand, demand_finite

__all__ = ["LOGISTIC", "check_function", "write_function"]

_KINDS = {
    "Elu": "ELU",
    "HardSwish": "HARD_SWISH",
    "Sigmoid": "SIGMOID",
    "Tanh": "TANH",
    "exGelu": "SWISH",
    "exMish": "MISH",
    "exSwish": "SWISH",
}
"""What C calls the function of a row; of "exGelu" only the step is another one."""
_COEFFICIENTS = 5
_LONGEST = 1 << 22


def _numbers(reach: float, factor: float, parts: Sequence[Sequence[float]]) -> list[float]:
    """As ``enum number`` has them, up to the last one."""
    padded = [[*part, *[0.0] * (_COEFFICIENTS - len(part))] for part in parts]
    return [reach, factor, float(len(parts[0])), *padded[0], *padded[1]]


LOGISTIC = _numbers(unary_functions.LOGISTIC_REACH, unary_functions.LOGISTIC_FACTOR, unary_functions.LOGISTIC)
_NORMAL = _numbers(unary_functions.NORMAL_REACH, unary_functions.NORMAL_FACTOR, unary_functions.NORMAL)


def check_function(view: NodeView) -> None:
    """Raise NotLowered for a function that the kernels do not compute."""
    fused, stage = view.node.fused, view.node.stage
    assert fused is not None and stage is not None
    demand(not view.has(1) and fused.join is None and fused.before is None, "more than a function of sums")
    demand(stage.lut is not None, "no activation table was uploaded for it")
    row = TABLE_FUNCTIONS.get(fused.function)
    demand(
        row is not None and (by_table(fused, stage) or row.name in _KINDS), f"the function {fused.function}"
    )


def write_function(writer: Writer, view: NodeView, op: Op) -> None:
    """Add the numbers of a function to the op of its convolution."""
    fused, conv, stage, y = view.node.fused, view.node.conv, view.node.stage, view.outputs[0]
    assert fused is not None and conv is not None and stage is not None and stage.lut is not None
    assert y.quant is not None
    row, low, high = TABLE_FUNCTIONS[fused.function], *(float(limit) for limit in centred_range(y))
    numbers = np.zeros(FUNCTION_NUMBERS, np.float32)
    op.flags |= Flag.FUNCTION
    factor = index_factor(conv, stage)
    if by_table(fused, stage):
        op.function = "TABLE_OF_INDICES"
        first, table = dense_table(stage.lut, stage.scale, stage.zero_point - y.quant.zero_point, low, high)
        demand(len(table) < _LONGEST and abs(first) < _LONGEST, "a long table")
        numbers[-1] = stage.lut.offset
        op.arrays["table"] = ((table.astype(np.int64) + writer.zero(y)) & 255).astype(np.uint8)
        op.numbers = {"first_low": float(first)}
    else:
        op.function = _KINDS[row.name]
        factor = factor * (1 / row.index_units)
        numbers[-1] = (*row.table_parameters(stage), 1.0)[0]
        numbers[:-1] = _NORMAL if row.name == "exGelu" else LOGISTIC
        shift = float(y.quant.zero_point) if y.zero_first else 0.0
        op.flags |= Flag.ZERO_FIRST if y.zero_first else 0
        op.place = writer.zero(y) - int(shift)
        op.numbers = {"step": y.quant.scale, "first_high": shift, "low": low + shift, "high": high + shift}
    demand_finite(factor, numbers)
    slope = np.zeros(op.y.channels, np.float32)
    op.arrays |= {
        "factor": np.broadcast_to(factor, op.y.channels).astype(np.float32),
        "slope": slope,
        "numbers": numbers,
    }
