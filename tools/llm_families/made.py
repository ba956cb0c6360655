"""Random tensors that follow from their names: the same numbers wherever they are made, without any file."""

from __future__ import annotations

import zlib

import numpy as np

__all__ = ["GRIDS", "gridded", "made", "made_for", "texts"]

GRIDS = {"w8": 127, "w4": 8, "auto": 1}
"""The largest whole number whose multiples integers of weights hold exactly, whichever 32 of them share a scale."""


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


def gridded(name: str, shape: tuple[int, ...], weights: str, turned: bool = False) -> np.ndarray:
    """float32 multiples of a power of two, the largest of which stands at every fourth place of a row and of a column.

    Whatever 32 weights share a scale: it is the same, and rounds none of them. Types of four and of eight bits hold the same numbers
    only where these are zero and one more, whose sign is that of its output; ``turned``: outputs are the last axis.
    """
    random, most = np.random.default_rng(zlib.crc32(name.encode())), GRIDS[weights]
    places = np.indices(shape, np.int64).sum(axis=0) % 4 == 0
    outputs = np.indices(shape, np.int64)[-1 if turned else -2]
    if weights == "w8":
        whole = np.where(
            places, most * random.choice((-1, 1), shape), random.integers(-most, most + 1, shape)
        )
    elif weights == "w4":
        whole = np.where(places, -most, random.integers(1 - most, most, shape)) * np.where(outputs % 3, 1, -1)
    else:
        whole = np.where(places, most, random.integers(0, most + 1, shape)) * np.where(outputs % 2, 1, -1)
    inputs = shape[-2] if turned else shape[-1]
    target = 1.0 if "embed" in name or "wte" in name else 1.9 / np.sqrt(inputs)
    step = 2.0 ** np.round(np.log2(target / most))
    return np.asarray(whole * (step * (127 / 128 if weights == "auto" else 1)), np.float32)


def made_for(name: str, shape: tuple[int, ...], kind: str, weights: str = "f32") -> np.ndarray:
    """The tensor of a model of a kind, which weights of that type hold exactly."""
    if weights == "f32" or len(shape) < 2:
        return made(name, shape)
    turned = (kind == "gpt2" and ".c_" in name) or (kind == "gpt_oss" and ".experts." in name)
    return gridded(name, shape, weights, turned)


def texts(lengths: tuple[int, ...], vocab: int) -> list[np.ndarray]:
    """Token ids of random texts, int64; none is one of the first, which are special in some families."""
    return [np.random.default_rng(i).integers(4, vocab, length) for i, length in enumerate(lengths)]
