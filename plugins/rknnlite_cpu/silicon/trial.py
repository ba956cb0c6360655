"""Whether the integers of a node do what its tensors say: computed once on all kinds of values, beside the simulator's rule.

Which registers a type of nodes uses was read off files. Should one of another toolkit use others, its results would be far off,
not a step or two; then the node is left to the simulator's rule, and told.
"""

from __future__ import annotations

from typing import Optional

import numpy as np
from rknnlite_graph.node_view import NodeView

from ..ops import builder_of
from ..values import Array, Kernel, centred_range

__all__ = ["steps_apart"]

_MOST_STEPS = 3
_SEED = 11


def steps_apart(view: NodeView, kernel: Kernel) -> Optional[int]:
    """How far a kernel is from the simulator's at most, in steps of the result; None where that is within what roundings do."""
    builder = builder_of(view.node.op)
    if builder is None:
        return None
    values = [_spread(view, index, place) for place, index in enumerate(view.live)]
    simulated, found = builder(view)([value.copy() for value in values]), kernel(values)
    most = max(int(np.abs(a.reshape(b.shape) - b).max(initial=0)) for a, b in zip(found, simulated))
    return most if most > _MOST_STEPS else None


def _spread(view: NodeView, index: int, place: int) -> Array:
    """Values over the whole range, those of the second operand in another order."""
    tensor = view.graph.tensors[index]
    low, high = (int(limit) for limit in centred_range(tensor))
    numbers = np.arange(low, high + 1, dtype=np.float32)
    np.random.default_rng(_SEED + place).shuffle(numbers)
    return np.resize(numbers, tensor.shape)
