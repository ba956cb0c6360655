"""How the weights of a reference package lie in ``PREFIX.weight``: the layout that decodes fastest.

Tensors are named ``layers.0.qkv``, ``.out``, ``.gate_up``, ``.down`` (queries, keys and values side by side, so
are gate and up), ``layers.0.norm1``, ``.norm2``, ``.qkv_bias``, ``.q_norm``, ``.k_norm``, then ``norm`` and
``head``. A matrix of K inputs and N outputs is

* float32: [K, N];
* float16, bfloat16 and w8: tiles [ceil(N/128), ceil(K/32), 32, 128], zero padded;
* w4: tiles [ceil(N/128), ceil(K/32), 16, 128] of two nibbles ``q + 8``, rows 0-15 of the tile in the low ones;

w8 and w4 with ``NAME.scale``, float16 [ceil(N/128), ceil(K/32), 128]: one scale per output and 32 inputs,
``weight = q * scale``. A tile row of 128 outputs is one run of memory, so that products, scales and sums work on
long rows, and a group of 32 inputs is one tile.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..formats.llm import Architecture

__all__ = ["COLUMNS", "GROUP", "matrices", "pack", "tiles", "vectors"]

Array = NDArray[Any]
GROUP, COLUMNS = 32, 128

ELEMENTS = {"f32": "F32", "f16": "F16", "bf16": "BF16", "w8": "I8", "w4": "U8"}
"""Weight format -> element type of its matrices in the file."""


def tiles(inputs: int, outputs: int) -> tuple[int, int]:
    """Numbers of tiles across the outputs and across the inputs."""
    return -(-outputs // COLUMNS), -(-inputs // GROUP)


def matrices(arch: Architecture) -> dict[str, tuple[int, int]]:
    """Every matrix of the model: name -> (inputs, outputs)."""
    layer = {
        "qkv": (arch.hidden, arch.qkv_size),
        "out": (arch.heads * arch.head_dim, arch.hidden),
        "gate_up": (arch.hidden, 2 * arch.intermediate),
        "down": (arch.intermediate, arch.hidden),
    }
    every = {f"layers.{i}.{name}": size for i in range(arch.layers) for name, size in layer.items()}
    return {**every, "head": (arch.hidden, arch.vocab_size)}


def vectors(arch: Architecture) -> dict[str, int]:
    """Every float32 vector of the model: name -> length."""
    layer = {"norm1": arch.hidden, "norm2": arch.hidden}
    if arch.qkv_bias:
        layer["qkv_bias"] = arch.qkv_size
    if arch.qk_norm:
        layer.update(q_norm=arch.head_dim, k_norm=arch.head_dim)
    every = {f"layers.{i}.{name}": size for i in range(arch.layers) for name, size in layer.items()}
    return {**every, "norm": arch.hidden}


def pack(name: str, matrix: Array, weights: str) -> dict[str, tuple[str, Array]]:
    """Tensors of the file for one matrix, float32 (outputs, inputs) as PyTorch's Linear has it."""
    if weights == "f32":
        return {name: ("F32", np.ascontiguousarray(matrix.T))}
    tiled = _tiled(matrix)
    if weights == "f16":
        return {name: ("F16", tiled.astype(np.float16))}
    if weights == "bf16":
        return {name: ("BF16", _bfloat16(tiled))}
    codes, scale = (_quantise8 if weights == "w8" else _quantise4)(tiled)
    return {name: (ELEMENTS[weights], codes), f"{name}.scale": ("F16", scale)}


def _tiled(matrix: Array) -> Array:
    outputs, inputs = matrix.shape
    across, down = tiles(inputs, outputs)
    padded = np.zeros((across * COLUMNS, down * GROUP), np.float32)
    padded[:outputs, :inputs] = matrix
    return np.ascontiguousarray(padded.reshape(across, COLUMNS, down, GROUP).transpose(0, 2, 3, 1))


def _bfloat16(values: Array) -> Array:
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    half_even = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return np.asarray((bits + half_even) >> np.uint32(16), np.uint16)


def _codes(tiled: Array, scale: Array, low: int, high: int) -> tuple[Array, Array]:
    stored = scale.astype(np.float16)  # quantise with the scale that is stored, not with the exact one
    divisor = stored.astype(np.float32)
    safe = np.where(divisor == 0, np.float32(1), divisor)
    return np.clip(np.rint(tiled / safe), low, high).astype(np.int8), stored[:, :, 0]


def _quantise8(tiled: Array) -> tuple[Array, Array]:
    return _codes(tiled, np.abs(tiled).max(axis=2, keepdims=True) / np.float32(127), -127, 127)


def _quantise4(tiled: Array) -> tuple[Array, Array]:
    """The extreme value of a group gets -8, the one code without a counterpart."""
    extreme = np.take_along_axis(tiled, np.abs(tiled).argmax(axis=2)[:, :, None], axis=2)
    codes, scale = _codes(tiled, extreme / np.float32(-8), -8, 7)
    nibbles = (codes + np.int8(8)).astype(np.uint8)
    half = GROUP // 2
    return nibbles[:, :, :half] | (nibbles[:, :, half:] << np.uint8(4)), scale
