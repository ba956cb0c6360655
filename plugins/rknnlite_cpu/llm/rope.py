"""Rotary position embedding: pairs (i, i + half) of a head turn by position times frequency."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.formats.llm import Rope

__all__ = ["frequencies", "rotate", "turns"]

Array = NDArray[Any]


def frequencies(rope: Rope, head_dim: int) -> Array:
    """Radians per position for each pair, float64 (head_dim / 2,), scaling included."""
    base = 1.0 / rope.theta ** (np.arange(0, head_dim, 2) / head_dim)
    if rope.scaling == "linear":
        return base / rope.factor
    if rope.scaling == "llama3":
        return _llama3(base, rope)
    return base


def _llama3(base: Array, rope: Rope) -> Array:
    """Llama 3.1: long wavelengths are stretched, short ones stay, those between are mixed."""
    wavelength = 2 * math.pi / base
    turns_in_context = rope.original_max_position / wavelength
    span = max(rope.high_freq_factor - rope.low_freq_factor, 1e-9)
    share = np.clip((turns_in_context - rope.low_freq_factor) / span, 0, 1)
    return share * base + (1 - share) * base / rope.factor


def turns(frequency: Array, positions: Array) -> tuple[Array, Array]:
    """Cosine and sine, float32 (len(positions), head_dim / 2)."""
    angles = positions[:, None].astype(np.float64) * frequency
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def rotate(heads: Array, turn: tuple[Array, Array]) -> Array:
    """Turn ``heads`` (.., tokens, head_dim) float32 by ``turns`` of the tokens."""
    cos, sin = turn
    half = heads.shape[-1] // 2
    first, second = heads[..., :half], heads[..., half:]
    out = np.empty_like(heads)
    np.subtract(first * cos, second * sin, out=out[..., :half])
    np.add(second * cos, first * sin, out=out[..., half:])
    return out
