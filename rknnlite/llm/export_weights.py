"""The weight file of a package from the tensors of a Hugging Face directory."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from ..formats.llm import Architecture
from ..formats.llm_families import FAMILIES
from ..formats.safetensors import write_safetensors
from .published import Source
from .weights import layer_matrices, matrices, pack

__all__ = ["Progress", "write_weights"]

Array = NDArray[Any]
Progress = Optional[Callable[[int, int, str], None]]


class _Writer:
    """Collects the tensors of a package, and a digest of all of them."""

    def __init__(self, source: Source, arch: Architecture, weights: str, progress: Progress) -> None:
        self.source, self.arch = source, arch
        self.written: dict[str, tuple[str, Array]] = {}
        self.digest = hashlib.sha256()
        self._weights, self._progress = weights, progress
        self._packed = itertools.count()

    def _add(self, parts: dict[str, tuple[str, Array]]) -> None:
        for name, (kind, array) in parts.items():
            self.digest.update(f"{name} {kind} {array.shape}".encode())
            self.digest.update(np.ascontiguousarray(array).data)
            self.written[name] = (kind, array)

    def plain(self, prefix: str, vectors: dict[str, Array]) -> None:
        self._add({prefix + name: ("F32", vector) for name, vector in vectors.items()})

    def matrix(self, name: str, *parts: Array) -> None:
        if self._progress:
            self._progress(next(self._packed), len(matrices(self.arch)), name)
        self._add(pack(name, np.concatenate(parts) if len(parts) > 1 else parts[0], self._weights))


def write_weights(
    path: Path, source: Source, arch: Architecture, weights: str, progress: Progress = None
) -> str:
    """Write the weight file; its identity is a digest of all it holds."""
    writer = _Writer(source, arch, weights, progress)
    for i in range(arch.layers):
        _layer(writer, i)
    if arch.encoder:
        _encoder_ends(writer)
    else:
        writer.plain("", {"norm": source.get("norm.weight", arch.hidden)})
    if arch.head:
        shape = (arch.vocab_size, arch.hidden)
        own = (
            source.get("embed_tokens.weight", *shape) if arch.tied else source.head("lm_head.weight", *shape)
        )
        writer.matrix("head", own)
    package_id = writer.digest.hexdigest()[:32]
    metadata = {"format": "rknnlite-llm-1", "package": package_id, "weights": weights}
    write_safetensors(path, writer.written, metadata)
    return package_id


def _layer(writer: _Writer, i: int) -> None:
    arch, family = writer.arch, FAMILIES[writer.arch.family]
    theirs, ours, names = f"{family.layers}{i}.", f"layers.{i}.", family.tensors
    widths = (arch.intermediate,) if arch.encoder else (arch.intermediate, arch.intermediate)
    widened = "up" if arch.encoder else "gate_up"
    rows = {
        "qkv": (names.qkv, (arch.q_size, arch.kv_size, arch.kv_size)),
        "out": (names.out, (arch.hidden,)),
        widened: (names.gate_up, widths),
        "down": (names.down, (arch.hidden,)),
    }

    def one(name: str, *shape: int) -> Array:
        return writer.source.get(theirs + name, *shape)

    for name, (inputs, _) in layer_matrices(arch).items():
        parts, sizes = rows[name]
        writer.matrix(
            ours + name, *(one(f"{part}.weight", n, inputs) for part, n in zip(parts, _sizes(parts, sizes)))
        )
    norms = {"norm1": names.norm1, "norm2": names.norm2}
    vectors = {name: one(f"{theirs}.weight", arch.hidden) for name, theirs in norms.items()}
    biased = list(rows) if arch.encoder else ["qkv"] if arch.qkv_bias else []
    for name in biased:
        parts, sizes = rows[name]
        biases = [one(f"{part}.bias", n) for part, n in zip(parts, _sizes(parts, sizes))]
        vectors[f"{name}_bias"] = np.concatenate(biases)
    if arch.encoder:
        vectors.update({f"{name}_bias": one(f"{theirs}.bias", arch.hidden) for name, theirs in norms.items()})
    if arch.qk_norm:
        vectors["q_norm"] = one(f"{names.q_norm}.weight", arch.head_dim)
        vectors["k_norm"] = one(f"{names.k_norm}.weight", arch.head_dim)
    writer.plain(ours, vectors)


def _sizes(parts: tuple[str, ...], sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Rows of the parts; a family that has them in one tensor has all rows there."""
    return sizes if len(parts) == len(sizes) else (sum(sizes),)


def _encoder_ends(writer: _Writer) -> None:
    """What is added to the embeddings of tokens: positions, and the type that all tokens of a single text have."""
    arch, source = writer.arch, writer.source
    norm = "embeddings.LayerNorm"
    vectors = {"embed_norm": source.get(f"{norm}.weight", arch.hidden)}
    vectors["embed_norm_bias"] = source.get(f"{norm}.bias", arch.hidden)
    first = FAMILIES[arch.family].first_position
    table = source.get("embeddings.position_embeddings.weight", first + arch.max_position, arch.hidden)
    kinds = source.rows("embeddings.token_type_embeddings.weight")
    kind = source.get("embeddings.token_type_embeddings.weight", kinds, arch.hidden)[0]
    writer.plain("", {**vectors, "positions": table[first:] + kind})
