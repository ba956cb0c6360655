"""Damage of what the NPU is given: task records, command words, addresses, loops of programs, lists of tasks, sizes of tensors."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st
from rknnlite_npu.cores import legal_masks
from rknnlite_npu.counts import count
from rknnlite_npu.layer_table import layer_table
from rknnlite_npu.limits import limits
from rknnlite_npu.placement import Bases
from rknnlite_npu.program import NpuProgram, read_program
from rknnlite_npu.submission import plan

from rknnlite.formats import ModelFile
from rknnlite.formats.flatbuffer import Table
from rknnlite.formats.slots import GraphSlot, NodeSlot, RelocationSlot, RootSlot, TensorSlot

from .damage import EXTREMES, flat_start, mixed

__all__ = ["FILES", "damaged", "npu_files", "use_plan"]

_DATA = Path(__file__).resolve().parents[1] / "data"
FILES = (
    "conv_relu.rk3588.i8", "conv_relu.rk3576.i8", "conv_uneven.rv1106.i8", "unet_like.rv1103b.i8", "act_silu.rk3588.i8",
    "unet_like.rk3588.i8", "dynamic_three.rk3588.i8", "lstm.rk3588.fp16",
)  # fmt: skip
"""Families, tables, three cores, the CPU, several sets of shapes, words that the NPU changes."""
_RECORD, _WORD = 40, 8
_FIELDS = ((0, 4), (4, 4), (8, 4), (12, 4), (24, 4), (28, 4), (32, 8))  # place and bytes in a record


@dataclass(frozen=True)
class Places:
    """Positions in a file of (number, bytes) that tell the NPU something, by kind."""

    records: list[tuple[int, int]]
    words: list[tuple[int, int]]
    chains: list[tuple[int, int]]
    addresses: list[tuple[int, int]]
    lists: list[tuple[int, int]]
    tensors: list[tuple[int, int]]


def places(data: bytes) -> Places:
    """Where everything is in a whole file."""
    model = ModelFile(data).model
    program = read_program(model)
    words = data.index(program.words.astype("<u8").tobytes())
    graph = next(iter(model.flat.tables(RootSlot.GRAPHS)))  # type: ignore[attr-defined]
    start = flat_start(data)
    records = data.index(_record(program))
    return Places(
        [(records + _RECORD * n + at, size) for n in range(len(program.tasks)) for at, size in _FIELDS],
        [(words + _WORD * n + at, 2) for n in range(len(program.words)) for at in (0, 2, 4, 6)],
        [(words + _WORD * (first + amount) + 2, 4) for first, amount in program.extents],
        list(_addresses(graph, start, program.moved)),
        list(_lists(graph, start)),
        list(_tensors(graph, start)),
    )


def _record(program: NpuProgram) -> bytes:
    """The first record as it is stored."""
    first = program.tasks[0]
    return struct.pack("<8IQ", *first)


def _addresses(graph: Table, start: int, mini: bool) -> Iterator[tuple[int, int]]:
    for entry in graph.tables(5 if mini else GraphSlot.RELOCATIONS):
        at, number = entry._vector(RelocationSlot.PLACES)
        yield from ((start + at + 4 * half, 4) for half in range(2 * number))


def _lists(graph: Table, start: int) -> Iterator[tuple[int, int]]:
    """First tasks of the ways of dividing cores; how many tasks nodes have, and which tensors."""
    vectors = [graph._vector(slot) for slot in (GraphSlot.FIRST_TASKS, GraphSlot.INPUTS, GraphSlot.OUTPUTS)]
    for node in graph.tables(GraphSlot.NODES):
        slots = (NodeSlot.TASKS, NodeSlot.TABLE_TASKS, NodeSlot.INPUTS, NodeSlot.OUTPUTS)
        vectors += [node._vector(slot) for slot in slots]
    for at, number in vectors:
        yield from ((start + at + 4 * index, 4) for index in range(number))


def _tensors(graph: Table, start: int) -> Iterator[tuple[int, int]]:
    for tensor in graph.tables(GraphSlot.TENSORS):
        for slot in (TensorSlot.BYTES, TensorSlot.OFFSET, TensorSlot.BLOB, TensorSlot.KIND):
            if tensor.has(slot):
                yield start + tensor._at(slot), 1 if slot == TensorSlot.KIND else 4
        at, number = tensor._vector(TensorSlot.NATIVE_DIMS)
        yield from ((start + at + 4 * index, 4) for index in range(number))


def damaged(data: bytes) -> st.SearchStrategy[bytes]:
    """The file with up to six such numbers changed, or with any damage."""
    known = places(data)
    kinds = [part for part in vars(known).values() if part]
    near = st.integers(0, 64).map(lambda n: 8 * n)
    values = st.sampled_from(EXTREMES) | st.integers(0, 1 << 32) | near | st.integers(0, len(data))
    place = st.sampled_from(kinds).flatmap(st.sampled_from)

    def change(choices: list[tuple[tuple[int, int], int]]) -> bytes:
        out = bytearray(data)
        for (at, size), value in choices:
            if at + size <= len(out):
                out[at : at + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")
        return bytes(out)

    aimed = st.lists(st.tuples(place, values), min_size=1, max_size=6).map(change)
    return aimed | aimed | aimed | mixed(data)


def use_plan(data: bytes, folder: Path) -> object:
    """All that is asked of a plan: jobs of every mask, the weight buffer, counts, limits, the table."""
    model = ModelFile(data).model
    told: list[object] = []
    for shape, pixels in ((None, False), (0, True), (1, False)):
        if shape is not None and shape >= max(1, len(model.shapes)):
            continue
        found = plan(model, Bases(1 << 28, 1 << 29), pixels and _takes_pixels(model), shape)
        assert len(found.weight_image()) <= 3 * len(data) + 4096
        for mask in legal_masks(found.program):
            counts = count(found, mask)
            told += [limits(found, counts, mask), str(layer_table(found, mask))]
    return told


def _takes_pixels(model: object) -> bool:
    """Whether pixels are known for every input."""
    return getattr(model, "family", "") == "RKNPU v2" and all(
        io.dtype.name == "INT8" for io in getattr(model, "inputs", ())
    )


def npu_files() -> list[bytes]:
    """The whole files."""
    return [(_DATA / f"{name}.rknn").read_bytes() for name in FILES]
