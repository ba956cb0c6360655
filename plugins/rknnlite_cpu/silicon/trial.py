"""Whether the integers of a node do what its tensors say: computed once on all kinds of values, beside the simulator's rule.

Which registers a type of nodes uses was read off files. Should one of another toolkit use others, its results would be far off,
not a step or two; then the node is left to the simulator's rule, and told.
"""

from __future__ import annotations

import math
from typing import Optional

import numpy as np
from rknnlite_graph.graph import Tensor
from rknnlite_graph.node_view import NodeView

from rknnlite.errors import ModelUnsupported

from ..ops import builder_of
from ..values import Array, Kernel, centred_range

__all__ = ["steps_apart"]

_MOST_STEPS = 3
_MOST_ELEMENTS = 1 << 24
_SEED = 11


def steps_apart(view: NodeView, kernel: Kernel) -> Optional[int]:
    """How far a kernel is from the simulator's at most, in steps of the result; None where that is within what roundings do.

    Raises:
        ModelInvalid: tensors that do not fit each other. ModelUnsupported: they are too large to be tried.
    """
    builder = builder_of(view.node.op)
    if builder is None:
        return None
    tensors = [view.graph.tensors[index] for index in view.live]
    if max(math.prod(tensor.shape) for tensor in (*tensors, *view.outputs)) > _MOST_ELEMENTS:
        raise ModelUnsupported(
            f"node {view.node.label()}: its tensors are too large to try whether its registers do what they say; open the model "
            "with fidelity='simulator'"
        )
    values = [_spread(tensor, place) for place, tensor in enumerate(tensors)]
    try:
        simulated, found = builder(view)([value.copy() for value in values]), kernel(values)
        most = max(int(np.abs(a.reshape(b.shape) - b).max(initial=0)) for a, b in zip(found, simulated))
    except (ValueError, IndexError, TypeError, KeyError, ZeroDivisionError, OverflowError) as error:
        raise view.fail(f"its operands do not fit: {error}") from error
    return most if most > _MOST_STEPS else None


def _spread(tensor: Tensor, place: int) -> Array:
    """Values over the whole range, those of the second operand in another order."""
    low, high = (int(limit) for limit in centred_range(tensor))
    numbers = np.arange(low, high + 1, dtype=np.float32)
    np.random.default_rng(_SEED + place).shuffle(numbers)
    return np.resize(numbers, tensor.shape)
