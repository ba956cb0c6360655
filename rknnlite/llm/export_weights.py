"""The weight file of a package from the tensors of a Hugging Face directory."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from ..formats.llm import Architecture
from ..formats.llm_families import FAMILIES
from ..formats.llm_weights import COLUMNS, WEIGHT_TYPES
from ..formats.safetensors import Filling, Widened, filling
from .published import Source
from .weights import layer_matrices, matrices, tables, vectors

__all__ = ["Progress", "write_weights"]

Array = NDArray[Any]
Progress = Optional[Callable[[int, int, str], None]]
_PIECE = 1 << 20
"""Weights that are packed at a time."""
_ID = 32
"""Letters of a package's identity."""


class _Writer:
    """Writes the tensors of a package, large matrices in pieces, and makes a digest of all of them."""

    def __init__(
        self, file: Filling, source: Source, arch: Architecture, weights: str, progress: Progress
    ) -> None:
        self.source, self.arch = source, arch
        self.digest = hashlib.sha256()
        self._file, self._kind, self._progress = file, WEIGHT_TYPES[weights], progress
        self._packed = itertools.count()

    def _begin(self, name: str, element: str, shape: tuple[int, ...]) -> None:
        self.digest.update(f"{name} {element} {shape}".encode())

    def _add(self, name: str, array: Array) -> None:
        self.digest.update(np.ascontiguousarray(array).data)
        self._file.add(name, array)

    def plain(self, prefix: str, vectors: dict[str, Array]) -> None:
        for name, vector in vectors.items():
            self._begin(prefix + name, "F32", vector.shape)
            self._add(prefix + name, vector)

    def matrix(self, name: str, *parts: Array | Widened) -> None:
        """A matrix (outputs, inputs) from its rows."""
        if self._progress:
            self._progress(next(self._packed), len(matrices(self.arch)), name)
        whole = np.concatenate([part[...] for part in parts]) if len(parts) > 1 else parts[0]
        outputs, inputs = whole.shape
        self._begin(name, self._kind.element, self._kind.shape(inputs, outputs))
        scales = []
        for piece in self._pieces(outputs, inputs):
            codes, scale = self._kind.pack(whole[piece])
            self._add(name, codes)
            if scale is not None:
                scales.append(scale)
        if scales:
            self._begin(f"{name}.scale", "F16", self._kind.scale_shape(inputs, outputs))
            self._add(f"{name}.scale", np.concatenate(scales))

    def _pieces(self, outputs: int, inputs: int) -> Iterator[tuple[slice, slice]]:
        """Of a matrix, in the order of the file: whole rows of tiles, or inputs."""
        every = slice(None)
        if self._kind.tiled:
            step = max(1, _PIECE // (inputs * COLUMNS)) * COLUMNS
            return ((slice(i, i + step), every) for i in range(0, outputs, step))
        step = max(1, _PIECE // outputs)
        return ((every, slice(i, i + step)) for i in range(0, inputs, step))


def write_weights(
    path: Path, source: Source, arch: Architecture, weights: str, progress: Progress = None
) -> str:
    """Write the weight file; its identity is a digest of all it holds."""
    kind = WEIGHT_TYPES[weights]
    shapes: dict[str, tuple[str, tuple[int, ...]]]
    shapes = {name: ("F32", (size,)) for name, size in vectors(arch).items()}
    shapes.update({name: ("F32", shape) for name, shape in tables(arch).items()})
    for name, size in matrices(arch).items():
        shapes[name] = kind.element, kind.shape(*size)
        if kind.scaled:
            shapes[f"{name}.scale"] = "F16", kind.scale_shape(*size)
    metadata = {"format": "rknnlite-llm-1", "package": "0" * _ID, "weights": weights}
    with filling(path, shapes, metadata) as file:
        writer = _Writer(file, source, arch, weights, progress)
        _write_all(writer)
        package_id = writer.digest.hexdigest()[:_ID]
        file.end(package=package_id)
    return package_id


def _write_all(writer: _Writer) -> None:
    arch, source = writer.arch, writer.source
    for i in range(arch.layers):
        _layer(writer, i)
    if arch.encoder:
        _encoder_ends(writer)
    else:
        writer.plain("", {"norm": source.get("norm.weight", arch.hidden)})
    if arch.head:
        shape = (arch.vocab_size, arch.hidden)
        writer.matrix("head", source.table(arch) if arch.tied else source.widened("lm_head.weight", *shape))


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
