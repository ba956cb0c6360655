"""Attention to what keys and values are made of (DeepSeek's MLA): one vector per token is kept, for all heads.

A head's key is a matrix times that vector, so its query meets the vector through the transpose of the matrix, and the vectors that
it finds become values behind the sum. The numbers are those of keys and values that are made for every token, in another order.
"""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_llm.container.architecture import Architecture

from .attention import AttentionFunction
from .attention_layer import Attention
from .linear import Linear
from .norms_and_activations import rms_normed

__all__ = ["LatentAttention"]

Array = NDArray[Any]
_EPS = np.float32(1e-6)  # of these norms, whatever the model's others have


class LatentAttention(Attention):
    """``Attention`` whose one head of keys is ``(turning channels, latent vector)``, and of values the same without the first."""

    def __init__(
        self,
        arch: Architecture,
        number: int,
        kv_a: Linear,
        out: Linear,
        kv_b: Array,
        kv_a_norm: Array,
        q: Optional[Linear] = None,
        q_a: Optional[Linear] = None,
        q_b: Optional[Linear] = None,
        q_a_norm: Optional[Array] = None,
        q_a_bias: Optional[Array] = None,
        kv_a_bias: Optional[Array] = None,
        out_bias: Optional[Array] = None,
        attention: Optional[AttentionFunction] = None,
    ) -> None:
        super().__init__(arch, number, kv_a, out, kv_a_bias, out_bias, attention=attention)
        assert arch.latent is not None
        self._form = form = arch.latent
        self._norm, self._q, self._q_a, self._q_b = kv_a_norm, q, q_a, q_b
        self._q_norm, self._q_bias = q_a_norm, q_a_bias
        whole = kv_b.reshape(arch.heads, form.plain + form.value, form.rank)
        self._keys = np.ascontiguousarray(whole[:, : form.plain])  # (heads, plain, rank)
        self._values = np.ascontiguousarray(whole[:, form.plain :].transpose(0, 2, 1))  # (heads, rank, value)

    def _asking(self, x: Array) -> Array:
        form, tokens = self._form, len(x)
        queries = self._asked_by(x).reshape(tokens, -1, form.plain + form.turned)
        met = queries[:, :, : form.plain].transpose(1, 0, 2) @ self._keys
        queries = np.concatenate([queries[:, :, form.plain :], met.transpose(1, 0, 2)], axis=2)
        made = super()._asking(x)
        latent = rms_normed(made[:, : form.rank], self._norm, _EPS)
        nothing = np.zeros((tokens, form.turned), np.float32)
        turning = made[:, form.rank :]
        return np.concatenate([queries.reshape(tokens, -1), turning, latent, nothing, latent], axis=1)

    def _asked_by(self, x: Array) -> Array:
        if self._q is not None:
            return self._q(x)
        assert self._q_a is not None and self._q_b is not None and self._q_norm is not None
        narrow = self._q_a(x)
        if self._q_bias is not None:
            narrow = narrow + self._q_bias
        return self._q_b(rms_normed(narrow, self._q_norm, _EPS))

    def _found(self, mixed: Array) -> Array:
        tokens, form = len(mixed), self._form
        latent = mixed.reshape(tokens, -1, form.turned + form.rank)[:, :, form.turned :]
        values = latent.transpose(1, 0, 2) @ self._values
        return np.ascontiguousarray(values.transpose(1, 0, 2)).reshape(tokens, -1)
