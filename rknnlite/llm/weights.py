"""The tensors of a weight file ``PREFIX.weight``: the layout that decodes fastest.

They are named ``layers.0.qkv``, ``.out``, ``.gate_up``, ``.down`` (queries, keys and values side by side, so are gate
and up), ``layers.0.norm1``, ``.norm2``, ``.qkv_bias``, ``.q_norm``, ``.k_norm``, then ``norm`` and ``head``. How a
matrix lies in the file is told by its ``WeightType``; scales are beside it, under ``NAME.scale``.

An encoder has ``up`` for ``gate_up``, a bias for every matrix and norm (``out_bias``, ``norm1_bias``, ...), ``embed_norm`` for
``norm`` and ``positions``, float32 (positions, hidden): what is added to the embedding of a text's first token, second
token, ..., with the embedding of the one token type that a single text has.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from ..formats.llm import Architecture
from ..formats.llm_weights import WEIGHT_TYPES

__all__ = ["layer_matrices", "layer_vectors", "matrices", "pack", "tables", "vectors"]

Array = NDArray[Any]


def layer_matrices(arch: Architecture) -> dict[str, tuple[int, int]]:
    """The matrices of one layer: name -> (inputs, outputs)."""
    widened = {"up": arch.intermediate} if arch.encoder else {"gate_up": 2 * arch.intermediate}
    return {
        "qkv": (arch.hidden, arch.qkv_size),
        "out": (arch.q_size, arch.hidden),
        **{name: (arch.hidden, size) for name, size in widened.items()},
        "down": (arch.intermediate, arch.hidden),
    }


def layer_vectors(arch: Architecture) -> dict[str, int]:
    """The float32 vectors of one layer: name -> length."""
    layer = {"norm1": arch.hidden, "norm2": arch.hidden}
    if arch.qkv_bias:
        layer["qkv_bias"] = arch.qkv_size
    if arch.qk_norm:
        layer.update(q_norm=arch.head_dim, k_norm=arch.head_dim)
    if arch.encoder:
        layer.update(dict.fromkeys(("out_bias", "down_bias", "norm1_bias", "norm2_bias"), arch.hidden))
        layer["up_bias"] = arch.intermediate
    return layer


def matrices(arch: Architecture) -> dict[str, tuple[int, int]]:
    """Every matrix of the model: name -> (inputs, outputs)."""
    layer = layer_matrices(arch)
    every = {f"layers.{i}.{name}": size for i in range(arch.layers) for name, size in layer.items()}
    return {**every, "head": (arch.hidden, arch.vocab_size)} if arch.head else every


def vectors(arch: Architecture) -> dict[str, int]:
    """Every float32 vector of the model: name -> length."""
    layer = layer_vectors(arch)
    every = {f"layers.{i}.{name}": size for i in range(arch.layers) for name, size in layer.items()}
    ends = ("embed_norm", "embed_norm_bias") if arch.encoder else ("norm",)
    return {**every, **dict.fromkeys(ends, arch.hidden)}


def tables(arch: Architecture) -> dict[str, tuple[int, int]]:
    """Every float32 matrix of which rows are taken: name -> shape."""
    return {"positions": (arch.max_position, arch.hidden)} if arch.encoder else {}


def pack(name: str, matrix: Array, weights: str) -> dict[str, tuple[str, Array]]:
    """Tensors of the file for one matrix, float32 (outputs, inputs) as PyTorch's Linear has it: name -> (type, data)."""
    kind = WEIGHT_TYPES[weights]
    codes, scale = kind.pack(matrix)
    packed = {name: (kind.element, codes)}
    if scale is not None:
        packed[f"{name}.scale"] = ("F16", scale)
    return packed
