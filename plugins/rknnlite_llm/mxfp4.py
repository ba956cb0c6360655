"""Stacks of matrices in MXFP4, as GPT-OSS has its experts: numbers of four bits, and a power of two for every 32 of a row.

``X_blocks`` is uint8 (matrices, outputs, groups, 16), a byte two numbers, the first one low; ``X_scales`` uint8 (matrices, outputs,
groups), exponents from -127 on (OCP's MX specification 1.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelInvalid

from .container.safetensors import SafeTensors

__all__ = ["BLOCKS", "Mxfp4Stack"]

Array = NDArray[Any]
BLOCKS, _SCALES = "_blocks", "_scales"
_GROUP, _BIAS, _LARGEST = 32, 127, 252
_POSITIVE = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0], np.float32)
_VALUES = np.concatenate([_POSITIVE, -_POSITIVE])
_PAIRS = np.stack([_VALUES[np.arange(256) % 16], _VALUES[np.arange(256) // 16]], axis=1)


class Mxfp4Stack:
    """Matrices (outputs, inputs) by number, in float32, which holds every one exactly. The bytes stay mapped."""

    def __init__(self, files: Mapping[str, SafeTensors], stem: str) -> None:
        """``stem``: name without ``_blocks``. Raises ModelInvalid."""
        self.names = [stem + BLOCKS, stem + _SCALES]
        if self.names[1] not in files:
            raise ModelInvalid(f"{stem}: has blocks of MXFP4 and no scales")
        self._blocks, self._scales = (files[name][name] for name in self.names)
        blocks, scales = self._blocks.shape, self._scales.shape
        kinds = {files[name].dtype(name) for name in self.names}
        if kinds != {"U8"} or len(blocks) != 4 or blocks[3] != _GROUP // 2 or blocks[:3] != scales:
            raise ModelInvalid(
                f"{stem}: blocks of MXFP4 are {list(blocks)} and scales {list(scales)}; needed are bytes of "
                "[matrices, outputs, groups, 16] and of [matrices, outputs, groups]"
            )
        self.shape = (blocks[0], blocks[1], blocks[2] * _GROUP)

    def __getitem__(self, number: Any) -> Array:
        """One matrix; raises ModelInvalid for a scale that is no number, or takes numbers beyond float32."""
        exponents = self._scales[number].astype(np.int32)
        if (exponents > _LARGEST).any():
            raise ModelInvalid(
                f"{self.names[1]}: a scale is 2**{int(exponents.max()) - _BIAS}, which is no number of a model"
            )
        values = _PAIRS[self._blocks[number]].reshape(*exponents.shape, _GROUP)
        return np.asarray(
            np.ldexp(values, (exponents - _BIAS)[..., None]).reshape(len(exponents), -1), np.float32
        )
