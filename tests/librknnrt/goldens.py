"""Numbers for programs, computed by rknnlite in this process: files of plain elements in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import rknnlite

__all__ = ["inferred", "pixels", "write"]

_SUFFIXES = {"float32": "f32", "uint8": "u8", "int8": "i8", "int64": "i64"}


def write(folder: Path, name: str, array: np.ndarray) -> np.ndarray:
    """``NAME.f32``, ``NAME.u8``, ``NAME.i8`` or ``NAME.i64``, by the type; returns the array."""
    (folder / f"{name}.{_SUFFIXES[array.dtype.name]}").write_bytes(np.ascontiguousarray(array).tobytes())
    return array


def pixels(seed: int, *shape: int) -> np.ndarray:
    """A picture without a pattern."""
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


def inferred(
    model: Any, inputs: Sequence[np.ndarray], **options: Any
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Outputs as float32, and as stored elements, of one inference on the CPU reference."""
    given = {name: options.pop(name) for name in ("pass_through",) if name in options}
    with rknnlite.open(model, backend="cpu", **options) as context:
        floats = context.infer(list(inputs), **given)
        stored = [output.data for output in context.infer(list(inputs), raw=True, **given)]
    return floats, stored
