"""Random tensors that follow from their names: the same numbers wherever they are made, without any file."""

from __future__ import annotations

import zlib

import numpy as np

__all__ = ["made", "texts"]


def made(name: str, shape: tuple[int, ...], halves: bool = False) -> np.ndarray:
    """float32; ``halves``: tables of embeddings are exact in float16, as packages of narrow weights have them."""
    random = np.random.default_rng(zlib.crc32(name.encode()))
    values = random.random(shape) - 0.5
    if "norm" in name.lower() and len(shape) == 1:
        values = 0.6 * values + (0 if name.endswith("bias") else 1)
    elif len(shape) > 1 and "embed" not in name:
        values *= 5 / np.sqrt(np.prod(shape[1:]))
    if "embed" in name and len(shape) > 1:
        values = (2 * values).astype(np.float16 if halves else np.float32)
    return np.asarray(values, np.float32)


def texts(lengths: tuple[int, ...], vocab: int) -> list[np.ndarray]:
    """Token ids of random texts, int64; none is one of the first, which are special in some families."""
    return [np.random.default_rng(i).integers(4, vocab, length) for i, length in enumerate(lengths)]
