"""The post-process plugin behind a context: which one, and its results as a caller wants them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from rknnlite import plugins
from rknnlite.errors import ParamInvalid
from rknnlite.spi import PostProcess
from rknnlite.tensor import TensorAttr

from .values import Array

__all__ = ["chosen", "converted"]


def chosen(given: Any) -> PostProcess | None:
    """What the option ``postprocess`` names: a path, a PostProcess, or nothing."""
    if given is None or isinstance(given, PostProcess):
        return given
    if isinstance(given, (str, os.PathLike)):
        return plugins.load_postprocess(given)
    raise ParamInvalid(
        f"postprocess must be the path of a plugin or a PostProcess, not a {type(given).__name__}"
    )


def converted(results: Sequence[Array], attrs: Sequence[TensorAttr], want_float: bool) -> list[Array]:
    """Copies of a plugin's results: float32, or as the plugin stores them."""
    if not want_float:
        return [array.copy() for array in results]
    answers: list[Array] = []
    for array, attr in zip(results, attrs):
        real = array.astype(np.float32)
        if attr.quant is not None:
            real = (real - np.float32(attr.quant.zero_point)) * np.float32(attr.quant.scale)
        answers.append(real)
    return answers
