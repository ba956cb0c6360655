"""Normalising and activations of language models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_graph.unary_functions import gelu
from rknnlite_llm.container.family import Norm

__all__ = [
    "ACTIVATIONS",
    "Normed",
    "capped",
    "layer_normed",
    "make_norm",
    "rms_normed",
    "sigmoid",
    "softmax",
    "xielu",
]

Array = NDArray[Any]
Normed = Callable[[Array], Array]


def rms_normed(x: Array, weight: Array, eps: np.float32) -> Array:
    """RMSNorm along the last axis."""
    power = np.einsum("...i,...i->...", x, x)[..., None] / np.float32(x.shape[-1])
    return np.asarray(x * (np.float32(1) / np.sqrt(power + eps)) * weight)


def layer_normed(x: Array, weight: Array, bias: Optional[Array], eps: np.float32) -> Array:
    """LayerNorm along the last axis."""
    x = x - x.mean(axis=-1, keepdims=True)
    power = np.einsum("...i,...i->...", x, x)[..., None] / np.float32(x.shape[-1])
    x *= np.float32(1) / np.sqrt(power + eps)
    x *= weight
    if bias is not None:
        x += bias
    return np.asarray(x)


def make_norm(norm: Norm, eps: float, weight: Array, bias: Optional[Array] = None) -> Normed:
    """The norm with its weights, float32."""
    small = np.float32(eps)
    if norm is Norm.LAYER:
        return lambda x: layer_normed(x, weight, bias, small)
    return lambda x: rms_normed(x, weight, small)


def capped(x: Array, cap: float) -> Array:
    """``cap * tanh(x / cap)``, in place."""
    x /= np.float32(cap)
    np.tanh(x, out=x)
    x *= np.float32(cap)
    return x


def softmax(x: Array) -> Array:
    """Along the last axis."""
    x = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(x / x.sum(axis=-1, keepdims=True))


def sigmoid(x: Array) -> Array:
    """``1 / (1 + exp(-x))``."""
    with np.errstate(over="ignore"):  # exp of a very negative number is inf, and the quotient 0
        return np.asarray(np.float32(1) / (np.float32(1) + np.exp(-x)))


def xielu(x: Array, form: Array) -> Array:
    """xIELU with both alphas, beta and eps."""
    positive, negative, beta, eps = form
    below = (np.expm1(np.minimum(x, eps)) - x) * negative
    return np.asarray(np.where(x > 0, positive * x * x, below) + beta * x)


def _silu(x: Array) -> Array:
    with np.errstate(over="ignore"):  # exp of a very negative number is inf, and the quotient 0
        return np.asarray(x / (np.exp(-x) + np.float32(1)))


def _gelu_tanh(x: Array) -> Array:
    """GELU by its approximation with tanh."""
    inner = np.float32(0.7978845608028654) * (x + np.float32(0.044715) * x * x * x)
    return np.asarray(np.float32(0.5) * x * (np.float32(1) + np.tanh(inner)))


def _relu(x: Array) -> Array:
    return np.asarray(np.maximum(x, np.float32(0)))


def _relu2(x: Array) -> Array:
    return np.asarray(np.square(_relu(x)))


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "silu": _silu,
    "gelu": gelu,
    "gelu_tanh": _gelu_tanh,
    "relu": _relu,
    "relu2": _relu2,
}
"""By the name that a package has."""
