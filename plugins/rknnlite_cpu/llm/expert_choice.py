"""Which experts a token goes to, and by what share."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_llm.container.architecture import Experts, Router

from .norms_and_activations import sigmoid, softmax

__all__ = ["chosen_experts"]

Array = NDArray[Any]


def chosen_experts(products: Array, form: Experts, correction: Optional[Array]) -> tuple[Array, Array]:
    """Numbers of experts and their shares, both (tokens, used).

    Args:
        products: of the router, float32 (tokens, count).
        correction: float32 (count,), of a form that is ``corrected``.
    """
    if form.router is Router.SPARSE_MIXER:
        return _mixed(products, form)
    shares = sigmoid(products) if form.router is Router.SIGMOID else softmax(products)
    wanted = shares if correction is None else shares + correction
    if form.groups > 1:
        wanted = _of_best_groups(wanted, form)
    chosen = _largest(wanted, form.used)
    used = np.take_along_axis(shares, chosen, axis=1)
    if form.normalise:
        used = used / (used.sum(axis=1, keepdims=True) + np.float32(form.small))
    return chosen, used if form.scale == 1 else used * np.float32(form.scale)


def _largest(values: Array, count: int) -> Array:
    """Columns of the largest values of every row, the largest first."""
    return np.argsort(-values, axis=1, kind="stable")[:, :count]


def _of_best_groups(wanted: Array, form: Experts) -> Array:
    """The same, with -inf for experts of other groups."""
    groups = wanted.reshape(len(wanted), form.groups, -1)
    merit = -np.sort(-groups, axis=2)[:, :, : form.group_best].sum(axis=2)
    best = np.zeros(merit.shape, bool)
    np.put_along_axis(best, _largest(merit, form.groups_used), True, axis=1)
    return np.where(best[:, :, None], groups, -np.inf).reshape(wanted.shape)


def _mixed(products: Array, form: Experts) -> tuple[Array, Array]:
    chosen, used, left = [], [], products
    for _ in range(form.used):
        best = left.argmax(axis=1)[:, None]
        largest = np.take_along_axis(left, best, axis=1)
        with np.errstate(invalid="ignore"):
            far = (largest - products) / np.maximum(np.abs(products), largest) > 2 * form.jitter
        shares = softmax(np.where(far, -np.inf, left))
        chosen.append(best)
        used.append(np.take_along_axis(shares, best, axis=1))
        left = left.copy()
        np.put_along_axis(left, best, -np.inf, axis=1)
    return np.concatenate(chosen, axis=1), np.concatenate(used, axis=1)
