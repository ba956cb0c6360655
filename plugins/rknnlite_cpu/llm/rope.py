"""Rotary position embedding: pairs (i, i + half) of the turning channels of a head turn by position times frequency."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rknnlite_llm.container.description import Rope

__all__ = ["by_pair", "frequencies", "rotate", "turns"]

Array = NDArray[Any]


@functools.lru_cache(maxsize=64)
def frequencies(rope: Rope, head_dim: int, reach: int = 0) -> Array:
    """Radians per position for each pair, float64 (turning channels / 2,), scaling included.

    ``reach``: how many tokens there are, for scalings that go by it (``Rope.moving``).
    """
    dims = rope.dims or head_dim
    base = 1.0 / rope.theta ** (np.arange(0, dims, 2) / dims)
    base[len(base) - rope.still :] = 0  # all turn where there are none
    if rope.scaling == "linear":
        return base / rope.factor
    if rope.scaling == "llama3":
        return _llama3(base, rope)
    if rope.scaling == "yarn":
        return _yarn(base, rope, dims)
    if rope.scaling == "dynamic":
        return _dynamic(rope, dims, reach)
    if rope.scaling == "longrope":
        factors = rope.long_factors if reach > rope.original_max_position else rope.short_factors
        return base / np.array(factors)
    return base


def _llama3(base: Array, rope: Rope) -> Array:
    """Llama 3.1: long wavelengths are stretched, short ones stay, those between are mixed."""
    wavelength = 2 * math.pi / base
    turns_in_context = rope.original_max_position / wavelength
    span = max(rope.high_freq_factor - rope.low_freq_factor, 1e-9)
    share = np.clip((turns_in_context - rope.low_freq_factor) / span, 0, 1)
    return np.asarray(share * base + (1 - share) * base / rope.factor)


def _yarn(base: Array, rope: Rope, dims: int) -> Array:
    """YaRN: pairs that turn often in the original context stay, those that turn seldom are stretched."""

    def pair(rotations: float) -> float:
        return (
            dims
            * math.log(rope.original_max_position / (rotations * 2 * math.pi))
            / (2 * math.log(rope.theta))
        )

    low, high = pair(rope.beta_fast), pair(rope.beta_slow)
    if rope.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dims - 1)
    stretched = np.clip((np.arange(dims // 2) - low) / ((high - low) or 0.001), 0, 1)
    return np.asarray(base * (1 - stretched) + base / rope.factor * stretched)


def _dynamic(rope: Rope, dims: int, reach: int) -> Array:
    """NTK: beyond the original context the base grows with the number of tokens."""
    longer = max(reach, rope.original_max_position) / rope.original_max_position
    theta = rope.theta * (rope.factor * longer - (rope.factor - 1)) ** (dims / (dims - 2))
    return np.asarray(1.0 / theta ** (np.arange(0, dims, 2) / dims))


def by_pair(rope: Rope, positions: Array, pairs: int) -> Array:
    """The position that each pair turns by, (tokens, pairs) or (tokens, 1), from those of time, height and width (axes, tokens).

    Where all axes say the same there is one.
    """
    if not rope.sections or len(positions) == 1:
        return positions[:1].T
    axes = np.repeat(np.arange(3), rope.sections)
    if rope.interleaved:
        axes = np.zeros(pairs, np.int64)
        for axis in (1, 2):
            axes[axis : 3 * rope.sections[axis] : 3] = axis
    return np.asarray(positions[axes].T)


def turns(frequency: Array, positions: Array, magnitude: float = 1.0) -> tuple[Array, Array]:
    """Cosine and sine times ``magnitude``, float32 (tokens, pairs); ``positions`` (tokens, pairs), or (tokens, 1) for all pairs."""
    angles = positions.astype(np.float64) * frequency
    return (magnitude * np.cos(angles)).astype(np.float32), (magnitude * np.sin(angles)).astype(np.float32)


def rotate(heads: Array, turn: tuple[Array, Array]) -> Array:
    """Turn ``heads`` (.., tokens, head_dim) float32 by ``turns`` of the tokens; channels behind the pairs stay."""
    cos, sin = turn
    half = cos.shape[-1]
    first, second = heads[..., :half], heads[..., half : 2 * half]
    out = np.empty_like(heads)
    np.subtract(first * cos, second * sin, out=out[..., :half])
    np.add(second * cos, first * sin, out=out[..., half : 2 * half])
    out[..., 2 * half :] = heads[..., 2 * half :]
    return out
