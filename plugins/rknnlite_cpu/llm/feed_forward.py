"""The feed-forward network behind attention in a layer of the decoder: one, or a mixture of experts."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_llm.container.architecture import CLAMPED_SWIGLU, Experts

from ..kernels.parallel import BLOCK_ELEMENTS, run_blocks
from .expert_choice import chosen_experts
from .linear import Linear
from .norms_and_activations import ACTIVATIONS, Normed, sigmoid, xielu

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
        self._activation = (
            functools.partial(xielu, form=form) if form is not None else ACTIVATIONS.get(activation)
        )

    def _activated(self, x: Array) -> Array:
        assert self._activation is not None
        return self._activation(x)

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
                wide[block] = self._activated(wide[block])
            elif self._name in _GATES:
                _GATES[self._name](wide[block, :width], wide[block, width:])
            else:
                wide[block, :width] = self._activated(wide[block, :width]) * wide[block, width:]

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
        router_bias: Optional[Array] = None,
        expert_scale: Optional[Array] = None,
        norms: Optional[Mapping[str, Normed]] = None,
    ) -> None:
        """``norms``: of experts ``apart``, ``norm2`` before the shared network among them; by the names of the package."""
        self._form, self._router, self._networks = form, np.ascontiguousarray(router.T), networks
        self._shared, self._shared_gate, self._correction = shared, shared_gate, router_correction
        self._bias, self._scale, self._norms = router_bias, expert_scale, norms

    def __call__(self, x: Array) -> Array:
        """(tokens, hidden) -> the same."""
        if self._norms is None:
            return self._together(x, x, x)
        norms = self._norms
        return self._together(norms["norm2"](x), norms["norm_experts"](x), norms["norm_router"](x))

    def _together(self, shared: Array, x: Array, asked: Array) -> Array:
        """What the shared network makes of ``shared`` and the experts that ``asked`` chooses make of ``x``."""
        products = asked @ self._router if self._bias is None else asked @ self._router + self._bias
        chosen, used = chosen_experts(products, self._form, self._correction)
        if self._scale is not None:
            used = used * self._scale[chosen]
        out = np.zeros_like(x)
        for number in np.unique(chosen):
            rows, places = np.nonzero(chosen == number)
            out[rows] += self._networks[number](x[rows]) * used[rows, places, None]
        if self._shared is None:
            return out
        found = self._shared(shared)
        if self._norms is not None:
            return self._norms["post_shared"](found) + self._norms["post_experts"](out)
        return out + (found if self._shared_gate is None else found * sigmoid(shared @ self._shared_gate.T))


def _gated(gate: Array, up: Array) -> None:
    """``gate`` becomes ``silu(gate) * up``."""
    with np.errstate(over="ignore"):  # exp of a very negative gate is inf, and the quotient 0
        denominator = np.exp(-gate)
    denominator += np.float32(1)
    np.divide(gate, denominator, out=gate)
    np.multiply(gate, up, out=gate)


def _clamped(gate: Array, up: Array) -> None:
    """``gate`` becomes ``(up + 1) * gate * sigmoid(1.702 * gate)``, both of them cut to 7 (see ``CLAMPED_SWIGLU``)."""
    limit = np.float32(7)
    np.minimum(gate, limit, out=gate)
    gate *= sigmoid(np.float32(1.702) * gate) * (np.clip(up, -limit, limit) + np.float32(1))


_GATES = {"silu": _gated, CLAMPED_SWIGLU: _clamped}
"""Activations that are computed with their gate, in place."""
