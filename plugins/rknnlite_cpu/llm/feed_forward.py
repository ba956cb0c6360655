"""The feed-forward network behind attention in a layer of the decoder: one, or a mixture of experts."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_llm.container.architecture import Experts

from ..kernels.parallel import BLOCK_ELEMENTS, run_blocks
from .expert_choice import chosen_experts
from .linear import Linear
from .norms_and_activations import ACTIVATIONS, sigmoid, xielu

__all__ = ["FeedForward", "MixtureOfExperts"]

Array = NDArray[Any]


class FeedForward:
    """``down(activation(gate) * up)``; without a gate ``down(activation(up))``."""

    def __init__(
        self,
        activation: str,
        first: Linear,
        down: Linear,
        gated: bool,
        first_bias: Optional[Array] = None,
        down_bias: Optional[Array] = None,
        form: Optional[Array] = None,
    ) -> None:
        """``form``: the numbers of an activation that has been learnt."""
        self._first, self._down, self._gated = first, down, gated
        self._first_bias, self._down_bias = first_bias, down_bias
        self._name = activation
        self._activation = ACTIVATIONS[activation] if form is None else functools.partial(xielu, form=form)

    def __call__(self, x: Array) -> Array:
        """(tokens, hidden) -> the same."""
        wide = self._first(x)
        if self._first_bias is not None:
            wide += self._first_bias
        width = wide.shape[1] // 2 if self._gated else wide.shape[1]
        step = max(1, BLOCK_ELEMENTS // width)
        rows = [slice(i, i + step) for i in range(0, len(x), step)]

        def work(block: slice) -> None:
            if not self._gated:
                wide[block] = self._activation(wide[block])
            elif self._name == "silu":
                _gated(wide[block, :width], wide[block, width:])
            else:
                wide[block, :width] = self._activation(wide[block, :width]) * wide[block, width:]

        run_blocks(work, rows, wide.size)
        out = self._down(wide[:, :width])
        if self._down_bias is not None:
            out += self._down_bias
        return out


class MixtureOfExperts:
    """Some of many networks for every token, and one for all of them where there is one."""

    def __init__(
        self,
        form: Experts,
        router: Array,
        networks: Sequence[FeedForward],
        shared: Optional[FeedForward] = None,
        shared_gate: Optional[Array] = None,
        router_correction: Optional[Array] = None,
    ) -> None:
        self._form, self._router, self._networks = form, np.ascontiguousarray(router.T), networks
        self._shared, self._shared_gate, self._correction = shared, shared_gate, router_correction

    def __call__(self, x: Array) -> Array:
        """(tokens, hidden) -> the same."""
        chosen, used = chosen_experts(x @ self._router, self._form, self._correction)
        out = np.zeros_like(x)
        for number in np.unique(chosen):
            rows, places = np.nonzero(chosen == number)
            out[rows] += self._networks[number](x[rows]) * used[rows, places, None]
        if self._shared is None:
            return out
        return out + (
            self._shared(x)
            if self._shared_gate is None
            else self._shared(x) * sigmoid(x @ self._shared_gate.T)
        )


def _gated(gate: Array, up: Array) -> None:
    """``gate`` becomes ``silu(gate) * up``."""
    with np.errstate(over="ignore"):  # exp of a very negative gate is inf, and the quotient 0
        denominator = np.exp(-gate)
    denominator += np.float32(1)
    np.divide(gate, denominator, out=gate)
    np.multiply(gate, up, out=gate)
