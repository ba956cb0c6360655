"""The head of a model of scores, behind its last layer: pooled hidden states to a number per label."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from rknnlite_llm.container.architecture import Architecture

from .norms_and_activations import ACTIVATIONS, make_norm
from .weight_reader import WeightReader

__all__ = ["Scoring"]

Array = NDArray[Any]


class Scoring:
    """``out(norm(activation(dense(x))))``, see ``Scorer``."""

    def __init__(self, arch: Architecture, found: WeightReader) -> None:
        assert arch.scorer is not None
        self.form = form = arch.scorer
        self._out = found.table("score.out")
        self._out_bias = found.vector("score.out_bias") if form.out_bias else None
        self._dense = found.table("score.dense") if form.dense else None
        self._dense_bias = found.vector("score.dense_bias") if form.dense_bias else None
        self._activation = np.tanh if form.activation == "tanh" else ACTIVATIONS[form.activation]
        bias = found.vector("score.norm_bias") if form.norm and arch.norm_bias else None
        self._norm = (
            make_norm(arch.norm, arch.rms_eps, found.vector("score.norm"), bias) if form.norm else None
        )

    def __call__(self, x: Array) -> Array:
        """(texts, hidden) -> (texts, labels)."""
        if self._dense is not None:
            x = x @ self._dense.T
            x = self._activation(x if self._dense_bias is None else x + self._dense_bias)
        if self._norm is not None:
            x = self._norm(x)
        out = x @ self._out.T
        return np.asarray(out if self._out_bias is None else out + self._out_bias)
