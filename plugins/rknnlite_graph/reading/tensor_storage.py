"""Stored bytes of one graph: which blob belongs to which tensor, every reference checked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Optional

import numpy as np

from rknnlite.errors import ModelInvalid
from rknnlite.formats.flatbuffer import Table
from rknnlite.formats.slots import BlobSlot, TensorKind, TensorSlot

__all__ = ["Expansion", "Storage", "check_overlap"]


_FREE, _MOST_TOGETHER = 1 << 20, 8
"""Plain bytes of all weights together that any file may have, and per byte of its constants.

A plain byte takes up to eight while it is decoded and made a float32, so a file gets 64 times its size. What
compresses worst in practice, pruned weights of one bit per element, is just inside; trained ones are below two.
"""


class Expansion:
    """Adds up what the compressed weights of a graph become: many small ones could share one blob."""

    def __init__(self, stored: int) -> None:
        """``stored``: bytes of all constants of the file."""
        self._stored = stored
        self._plain = 0

    def add(self, name: str, size: int) -> None:
        """One more weight of ``size`` plain bytes; raises ModelInvalid."""
        self._plain += size
        if self._plain > max(_FREE, _MOST_TOGETHER * self._stored):
            raise ModelInvalid(
                f"compressed weight {name}: with those before it {self._plain} plain bytes from {self._stored} stored ones; "
                "no network is like that, the file is damaged: convert it again"
            )


_NO_BLOB = -1  # what toolkit 1.5 writes for empty constants, such as roi and scales of Resize


class Storage:
    """Bytes of the tensors of a graph.

    ``size``: bytes of all blobs. Later graphs of a model with dynamic shapes keep their weights in the first graph,
    under the same names.
    """

    def __init__(self, blobs: list[Table], tables: list[Table], first: Iterable[Table] = ()) -> None:
        self._blobs = blobs
        self._tables = tables
        self._names: dict[str, int] = {}
        for index, table in enumerate(tables):
            if table.i8(TensorSlot.KIND) in TensorKind.CONSTANTS:
                self._names.setdefault(table.string(TensorSlot.NAME), index)
        self._shared: dict[str, memoryview] = {}
        for table in first:
            number = table.i32(TensorSlot.BLOB, -1)
            if table.i8(TensorSlot.KIND) in TensorKind.CONSTANTS and 0 <= number < len(blobs):
                self._shared[table.string(TensorSlot.NAME)] = blobs[number].data(BlobSlot.DATA)
        self._master: Optional[Storage] = None
        spans = [blob.span(BlobSlot.DATA) for blob in blobs]
        check_overlap(spans)
        self.size = sum(size for _, size in spans)

    def borrow(self, master: Storage) -> None:
        """Take what this file lacks from another one, by name: its weights were removed (``remove_weight``)."""
        self._master = master

    def of(self, index: int) -> memoryview:
        """The bytes of tensor ``index``; empty when the file keeps none. Raises ModelInvalid."""
        table = self._tables[index]
        name, number = table.string(TensorSlot.NAME), table.i32(TensorSlot.BLOB, _NO_BLOB)
        if not _NO_BLOB <= number < len(self._blobs):
            raise ModelInvalid(
                f"constant {name}: blob {number} does not exist (there are {len(self._blobs)})"
            )
        data = memoryview(b"") if number == _NO_BLOB else self._blobs[number].data(BlobSlot.DATA)
        if not len(data):
            data = self._shared.get(name, data)
        if not len(data) and self._master is not None:
            data = self._master.named(name) or data
        return data

    def absent(self, index: int) -> bool:
        """Whether constant ``index`` stands for an operand that is not given: it has no blob, here or elsewhere."""
        return self._tables[index].i32(TensorSlot.BLOB, _NO_BLOB) == _NO_BLOB and not len(self.of(index))

    def has(self, index: int) -> bool:
        """Whether a blob of its own belongs to tensor ``index``; number 0 is what unset fields say."""
        number = self._tables[index].i32(TensorSlot.BLOB, -1)
        return 0 < number < len(self._blobs) and len(self._blobs[number].data(BlobSlot.DATA)) > 0

    def index(self, name: str) -> Optional[int]:
        """The constant tensor called ``name``."""
        return self._names.get(name)

    def named(self, name: str) -> Optional[memoryview]:
        """The bytes of the constant called ``name``, None when there is none."""
        index = self._names.get(name)
        return None if index is None else self.of(index)

    def commands(self) -> tuple[memoryview, memoryview]:
        """(task records, register commands) of the graph."""
        tasks = commands = memoryview(b"")
        for index, table in enumerate(self._tables):
            if table.i8(TensorSlot.KIND) == TensorKind.REGISTER_COMMANDS:
                commands = self.of(index)
            elif table.i8(TensorSlot.KIND) == TensorKind.TASKS:
                tasks = self.of(index)
        return tasks, commands


def check_overlap(spans: Iterable[tuple[int, int]]) -> None:
    """Refuse constants, given as (first byte, size), that share bytes: such a file was put together by hand."""
    places = np.array(list(spans), np.int64).reshape(-1, 2)
    places = places[places[:, 1] > 0]
    places = places[np.argsort(places[:, 0], kind="stable")]
    clash = np.flatnonzero(places[1:, 0] < places[:-1].sum(axis=1))
    if len(clash):
        (start, size), (other, _) = places[clash[0]].tolist(), places[clash[0] + 1].tolist()
        raise ModelInvalid(
            f"damaged file: the blob at byte {other} lies inside the one at byte {start} ({size} bytes)"
        )
