"""The weight file of a package from the tensors of a Hugging Face directory."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from .container.description import Architecture
from .container.families import FAMILIES
from .container.family import LlmFamily
from .container.safetensors import Filling, filling
from .container.weight_types import COLUMNS, WEIGHT_TYPES
from .hf_folder import HfFolder, Source
from .recurrent_weights import gate_weights, state_rows, state_sizes, state_vectors
from .sequence_classification import write_scorer
from .weights import (
    biased,
    gated,
    layer_matrices,
    layer_norms,
    layer_tables,
    layer_vectors,
    matrices,
    tables,
    vectors,
)

__all__ = ["Progress", "row_order", "write_weights"]

Array = NDArray[Any]
Progress = Optional[Callable[[int, int, str], None]]
_EXPERT = re.compile(r"experts\.(\d+)\.(\w+)")
_PIECE = 1 << 20
"""Weights that are packed at a time."""
_ID = 32
"""Letters of a package's identity."""


class _Writer:
    """Writes the tensors of a package, large matrices in pieces, and makes a digest of all of them."""

    def __init__(
        self, file: Filling, source: HfFolder, arch: Architecture, weights: str, progress: Progress
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

    def matrix(self, name: str, *parts: Array | Source) -> None:
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
    path: Path, source: HfFolder, arch: Architecture, weights: str, progress: Progress = None
) -> str:
    """Write the weight file; its identity is a digest of all it holds.

    Raises ModelUnsupported when layers have a tensor that this architecture makes nothing of.
    """
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
        _Layer(writer, i).write()
    if arch.encoder:
        _encoder_ends(writer)
    else:
        _ends(writer)
    if arch.scorer:
        write_scorer(source, arch, writer.plain)
    source.check_all_read(arch.layers if FAMILIES[arch.family].guessing else None)
    if arch.head:
        family, shape = FAMILIES[arch.family], (arch.vocab_size, arch.hidden)
        if arch.head_bias:
            writer.plain("", {"head_bias": source.head(family.head_bias_name, arch.vocab_size)})
        writer.matrix("head", source.table(arch) if arch.tied else source.widened(family.head, *shape))


class _Layer:
    """One layer from their tensors to ours."""

    def __init__(self, writer: _Writer, number: int) -> None:
        self._writer, self._arch, self._number = writer, writer.arch, number
        self._family = FAMILIES[writer.arch.family]
        self._theirs, self._ours = f"{self._family.layers}{number}.", f"layers.{number}."
        self._sources = self._matrix_sources()

    def write(self) -> None:
        """Matrices, then what is beside them."""
        for name, (inputs, _) in layer_matrices(self._arch, self._number).items():
            self._writer.matrix(self._ours + name, self._rows(name, "weight", inputs))
        names, hidden = self._family.tensors, self._arch.hidden
        vectors = {}
        for name in layer_norms(self._arch, self._number):
            vectors[name] = self._one(f"{getattr(names, name)}.weight", hidden) + self._offset
            if self._arch.norm_bias or self._arch.encoder:
                vectors[f"{name}_bias"] = self._one(f"{getattr(names, name)}.bias", hidden)
        for name in biased(self._arch, self._number):
            vectors[f"{name}_bias"] = self._rows(name, "bias")
        if self._arch.qk_norm and "qkv" in layer_matrices(self._arch, self._number):
            sizes = layer_vectors(self._arch, self._number)
            for name in [name for name in ("q_norm", "k_norm") if name in sizes]:
                vectors[name] = self._one(f"{getattr(names, name)}.weight", sizes[name]) + self._offset
        sizes = layer_vectors(self._arch, self._number)
        for name in ("q_a_norm", "kv_a_norm"):
            if name in sizes:
                vectors[name] = self._one(f"{getattr(names, name)}.weight", sizes[name])
        if "router_correction" in sizes:
            vectors["router_correction"] = self._correction(sizes["router_correction"])
        for name in ("row_norm", "norm_experts", "post_shared", "post_experts"):
            if name in sizes:
                vectors[name] = self._one(f"{getattr(names, name)}.weight", sizes[name])
        if "norm_router" in sizes:
            vectors["norm_router"] = self._one(names.norm_router, hidden) * np.float32(hidden**-0.5)
        for name, theirs in (
            ("expert_scale", names.expert_scale),
            ("sinks", names.sinks),
            ("router_bias", f"{names.router}.bias"),
            ("layer_scale", names.layer_scale),
        ):
            if name in sizes:
                vectors[name] = self._one(theirs, sizes[name])
        if "decay" in sizes:
            vectors.update(state_vectors(self._arch, names, self._one))
        if "xielu" in sizes:
            vectors["xielu"] = self._xielu()
        self._writer.plain(self._ours, {**vectors, **self._tables()})

    def _correction(self, count: int) -> Array:
        """Some files have it as a vector, others as a row."""
        name = self._family.tensors.router_correction
        shape = (1, count) if "moe_statics" in name else (count,)
        return self._one(name, *shape).reshape(count)

    def _xielu(self) -> Array:
        """Both alphas, beta and eps; the files have what a softplus makes the alphas of."""
        positive, negative = (
            np.logaddexp(np.float64(0), self._one(f"mlp.act_fn.{name}", 1))[0]
            for name in ("alpha_p", "alpha_n")
        )
        beta, eps = (float(self._one(f"mlp.act_fn.{name}")) for name in ("beta", "eps"))
        return np.array([positive, beta + negative, beta, eps], np.float32)

    @property
    def _offset(self) -> np.float32:
        return np.float32(self._family.norm_offset)

    def _one(self, name: str, *shape: int) -> Array:
        return self._writer.source.get(self._theirs + name, *shape)

    def _matrix_sources(self) -> dict[str, tuple[tuple[str, ...], tuple[int, ...]]]:
        """Name of ours -> names of theirs, and how many rows each has."""
        arch, names = self._arch.of_layer(self._number), self._family.tensors
        first = "gate_up" if gated(arch) else "up"

        def network(width: int) -> tuple[int, ...]:
            return (width, width) if gated(arch) else (width,)

        made = {
            "qkv": self._qkv(arch),
            "out": (names.out, (arch.hidden,)),
            **{name: (getattr(names, name), (0,)) for name in ("q", "q_a", "q_b", "kv_a")},
            "conv_in": (names.conv_in, (3 * arch.hidden,)),
            "conv_out": (names.conv_out, (arch.hidden,)),
            "row_gate": (names.row_gate, (arch.layer_rows,)),
            "row_out": (names.row_out, (arch.hidden,)),
            first: (names.gate_up, network(arch.intermediate)),
            "down": (names.down, (arch.hidden,)),
        }
        if arch.recurrence:
            parts = tuple(names.state + name for name in names.state_in)
            made["state_in"] = parts, state_sizes(arch.recurrence, names)
            made["state_out"] = (f"{names.state}out_proj",), (arch.hidden,)
        experts = arch.experts
        places = (
            [(f"experts.{i}.", f"{names.experts}{i}.", experts.intermediate) for i in range(experts.count)]
            if experts
            else []
        )
        for ours, theirs, width in places:
            made[f"{ours}{first}"] = tuple(theirs + name for name in names.expert_gate_up), network(width)
            made[f"{ours}down"] = tuple(theirs + name for name in names.expert_down), (arch.hidden,)
        if experts and experts.shared:
            up, down = names.shared_gate_up or names.expert_gate_up, names.shared_down or names.expert_down
            made[f"shared.{first}"] = tuple(names.shared + name for name in up), network(experts.shared)
            made["shared.down"] = tuple(names.shared + name for name in down), (arch.hidden,)
        return made

    def _qkv(self, arch: Architecture) -> tuple[tuple[str, ...], tuple[int, ...]]:
        names, kind = self._family.tensors.qkv, self._arch.kind(self._number)
        if kind.reuses:
            return names[:1], (arch.q_size,)
        names = (*names[:2], names[1]) if kind.keys_alone else names
        return names, (arch.asking_size - 2 * arch.kv_size, arch.kv_size, arch.kv_size)

    def _rows(self, name: str, what: str, *inputs: int) -> Array:
        """A matrix or a bias as ours has it."""
        expert = _EXPERT.match(name)
        stacks = self._family.tensors.expert_stacks
        if expert and any(stacks):
            return self._of_stack(
                stacks[expert[2] == "down"], int(expert[1]), sum(self._sources[name][1]), *inputs
            )
        parts, sizes = self._sources[name]
        sizes = sizes if any(sizes) else (layer_matrices(self._arch, self._number)[name][1],)
        sizes = sizes if len(parts) == len(sizes) else (sum(sizes),)  # all rows in one tensor
        turned = self._family.transposed and bool(inputs)
        shapes = [(*inputs, size) if turned else (size, *inputs) for size in sizes]
        found = [self._one(f"{part}.{what}", *shape) for part, shape in zip(parts, shapes)]
        found = [rows.T for rows in found] if turned else found
        rows = found[0] if len(found) == 1 else np.concatenate(found)
        order = row_order(self._arch, self._family, name)
        return rows if order is None else rows[order]

    def _of_stack(self, name: str, number: int, rows: int, *inputs: int) -> Array:
        """The matrix, or without ``inputs`` the bias, of one expert of all, which lie in one tensor."""
        assert self._arch.experts is not None
        count, turned = self._arch.experts.count, self._family.tensors.stacks_turned
        source, whole = self._writer.source, self._theirs + name
        if not inputs:
            found = source.lazy(f"{whole}_bias", count, rows)[number]
        elif turned and not source.is_packed(whole):
            found = source.lazy(whole, count, *inputs, rows)[number].T
        else:
            found = source.lazy(whole, count, rows, *inputs)[number]
        by_turns = turned and name == self._family.tensors.expert_stacks[0]
        return np.concatenate([found[::2], found[1::2]]) if by_turns else found

    def _tables(self) -> dict[str, Array]:
        names, shapes = self._family.tensors, layer_tables(self._arch, self._number)
        sources = {"router": names.router, "shared_gate": names.shared_gate, "kv_b": names.kv_b}
        made = {
            name: self._one(f"{sources[name]}.weight", *shapes[name]) for name in shapes if name in sources
        }
        if "state_gates" in shapes:
            made["state_gates"] = gate_weights(self._arch, names, self._one)
        if "conv" in shapes:
            hidden, taps = shapes["conv"]
            made["conv"] = self._one(f"{names.conv}.weight", hidden, 1, taps)[:, 0]
            if self._arch.conv_bias:
                made["conv_bias"] = self._one(f"{names.conv}.bias", hidden)
        return made


def row_order(arch: Architecture, family: LlmFamily, name: str) -> Array | None:
    """Their row that belongs in each of our rows of a matrix; None: all are in their places."""
    if arch.latent and family.interleaved and name in ("q", "q_b", "kv_a"):
        still, count = (arch.latent.rank, 1) if name == "kv_a" else (arch.latent.plain, arch.heads)
        turned_rows = np.arange(still, still + arch.latent.turned)
        of_head = np.concatenate([np.arange(still), turned_rows[::2], turned_rows[1::2]])
        return np.concatenate([of_head + head * len(of_head) for head in range(count)])
    if name == "state_in" and arch.recurrence:
        return state_rows(arch.recurrence, family.tensors)
    if name == "qkv" and arch.attention_gate:  # of every head the queries, then what gates them
        of_heads = np.arange(2 * arch.q_size).reshape(arch.heads, 2, -1)
        others = 2 * arch.q_size + np.arange(2 * arch.kv_size)
        return np.concatenate([of_heads[:, 0].ravel(), others, of_heads[:, 1].ravel()])
    if name != "qkv" or not (family.qkv_grouped or family.interleaved):
        return None
    rows = np.arange(arch.qkv_size)
    if family.qkv_grouped:
        groups = rows.reshape(arch.kv_heads, -1, arch.head_dim)
        rows = np.concatenate([groups[:, :-2].ravel(), groups[:, -2].ravel(), groups[:, -1].ravel()])
    if family.interleaved:
        turning = arch.rope.dims or arch.head_dim
        inside = np.arange(arch.head_dim)
        inside[:turning] = np.concatenate([inside[:turning:2], inside[1:turning:2]])
        each = rows.reshape(-1, arch.head_dim)
        turned = arch.heads + arch.kv_heads
        rows = np.concatenate([each[:turned, inside].ravel(), each[turned:].ravel()])
    return rows


def _ends(writer: _Writer) -> None:
    """The norms behind the last layer and before the first."""
    arch, source, family = writer.arch, writer.source, FAMILIES[writer.arch.family]
    names = {"norm": family.final, **({"embed_norm": family.embed_norm} if arch.embed_norm else {})}
    vectors = {}
    for ours, theirs in names.items():
        vectors[ours] = source.get(f"{theirs}.weight", arch.hidden) + np.float32(family.norm_offset)
        if arch.norm_bias:
            vectors[f"{ours}_bias"] = source.get(f"{theirs}.bias", arch.hidden)
    if arch.positions:
        first = family.first_position
        vectors["positions"] = source.get(family.positions, first + arch.max_position, arch.hidden)[first:]
    if arch.layer_rows:
        width = arch.layers * arch.layer_rows
        writer.matrix("rows", source.get(family.rows, width, arch.hidden))
        vectors["rows_norm"] = source.get(family.rows_norm, arch.layer_rows)
    writer.plain("", vectors)


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
    if arch.second_type:
        kinds_table = source.get("embeddings.token_type_embeddings.weight", kinds, arch.hidden)
        vectors["second_type"] = kinds_table[1:2] - kind
    writer.plain("", {**vectors, "positions": table[first:] + kind})
