"""Reading and writing safetensors: eight bytes of length, a JSON header, then the tensors one after another."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelInvalid, shown
from rknnlite.files.json_text import parse_json
from rknnlite.files.writing import writing

__all__ = ["Filling", "SafeTensors", "Widened", "filling", "write_safetensors"]

Array = NDArray[Any]
Shapes = Mapping[str, tuple[str, tuple[int, ...]]]
"""Element type and shape by name."""

_MAX_HEADER = 100 << 20
_ALIGN = 64
_MAX_RANK = 8
_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U8": "u1",
    "BOOL": "?",
}


class _Entry(NamedTuple):
    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


class Widened:
    """A tensor of any floating type; indexing gives float32."""

    def __init__(self, array: Array, bfloat16: bool) -> None:
        self._array, self._bfloat16 = array, bfloat16
        self.shape = array.shape

    def __getitem__(self, key: Any) -> Array:
        array = self._array[key]
        if self._bfloat16:
            array = (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return np.asarray(array, np.float32)


class SafeTensors:
    """Tensors of a file by name; they are views of the mapped bytes. bfloat16 comes as uint16 bit patterns."""

    def __init__(self, data: memoryview, label: str = "safetensors file") -> None:
        """Read and check the header; raises ModelInvalid."""
        self.label = label
        self.metadata: dict[str, str] = {}
        self._entries: dict[str, _Entry] = {}
        if len(data) < 8:
            raise ModelInvalid(f"{label}: {len(data)} bytes are no safetensors file")
        size = struct.unpack_from("<Q", data)[0]
        if size > min(_MAX_HEADER, len(data) - 8):
            raise ModelInvalid(
                f"{label}: a header of {size} bytes in a file of {len(data)}; not safetensors, or cut"
            )
        self._body = data[8 + size :]
        try:
            header = parse_json(bytes(data[8 : 8 + size]))
        except ValueError as error:
            raise ModelInvalid(f"{label}: damaged header: {shown(error)}") from None
        if not isinstance(header, dict):
            raise ModelInvalid(f"{label}: damaged header: no object")
        for name, entry in header.items():
            if name == "__metadata__":
                self.metadata = _texts(entry)
            else:
                self._entries[name] = self._check(name, entry)
        self._check_places()

    def _check_places(self) -> None:
        """Tensors share no bytes: otherwise a short file could stand for any number of copies."""
        end, before = 0, ""
        for name, entry in sorted(self._entries.items(), key=lambda item: (item[1].start, item[1].end)):
            if entry.start < end:
                raise ModelInvalid(
                    f"{self.label}: tensors {shown(before)} and {shown(name)} share bytes; the file is damaged"
                )
            end, before = entry.end, name

    def _check(self, name: str, entry: Any) -> _Entry:
        try:
            dtype = str(entry["dtype"])
            shape = tuple(entry["shape"])
            start, end = entry["data_offsets"]
        except (KeyError, TypeError, ValueError):
            raise ModelInvalid(f"{self.label}: damaged entry of tensor {shown(name)}") from None
        size = len(self._body)
        if len(shape) > _MAX_RANK or not all(type(n) is int and 0 <= n <= size for n in (*shape, start, end)):
            raise ModelInvalid(
                f"{self.label}: tensor {shown(name)} has shape {shown(shape)} at bytes {shown(start)}..{shown(end)} of "
                f"{size}; the file is cut or damaged"
            )
        count = 1
        for dim in shape:
            count *= dim
        if dtype not in _DTYPES:
            raise ModelInvalid(
                f"{self.label}: tensor {shown(name)} has the unknown element type {shown(dtype)}"
            )
        if not start <= end <= len(self._body) or end - start != count * np.dtype(_DTYPES[dtype]).itemsize:
            raise ModelInvalid(
                f"{self.label}: tensor {shown(name)} of {dtype} {list(shape)} at bytes {start}..{end} of "
                f"{len(self._body)}; the file is cut or damaged"
            )
        return _Entry(dtype, shape, start, end)

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    @property
    def names(self) -> list[str]:
        """Names of all tensors."""
        return list(self._entries)

    def dtype(self, name: str) -> str:
        """Element type as the format spells it, e.g. ``BF16``."""
        return self._entry(name).dtype

    def __getitem__(self, name: str) -> Array:
        entry = self._entry(name)
        flat = np.frombuffer(self._body[entry.start : entry.end], _DTYPES[entry.dtype])
        try:
            return flat.reshape(entry.shape)
        except ValueError as error:  # nothing, in dimensions beyond all bounds
            raise ModelInvalid(
                f"{self.label}: tensor {shown(name)} of {list(entry.shape)}: {error}"
            ) from None

    def _entry(self, name: str) -> _Entry:
        try:
            return self._entries[name]
        except KeyError:
            raise ModelInvalid(f"{self.label}: has no tensor {name!r}") from None

    def float32(self, name: str) -> Array:
        """A tensor as float32, from any floating type."""
        return self.widened(name)[...]

    def widened(self, name: str) -> Widened:
        """A tensor of which parts are wanted as float32."""
        return Widened(self[name], self.dtype(name) == "BF16")


def _texts(value: Any) -> dict[str, str]:
    items = value.items() if isinstance(value, dict) else ()
    return {key: text for key, text in items if isinstance(text, str)}


class Filling:
    """A file with places for tensors, which are filled one after another, also in pieces."""

    def __init__(self, file: BinaryIO, shapes: Shapes, metadata: Mapping[str, str]) -> None:
        ordered = sorted(shapes.items(), key=lambda item: -np.dtype(_DTYPES[item[1][0]]).itemsize)
        self._file, self._shapes, self._metadata = file, dict(ordered), dict(metadata)
        self._places: dict[str, int] = {}
        position = 0
        for name, (dtype, shape) in ordered:
            self._places[name] = position
            position += prod(shape) * np.dtype(_DTYPES[dtype]).itemsize
        self._ends, self._filled = {**self._places}, position
        self._start = self._header()

    def _header(self) -> int:
        """Write the header; its size."""
        header: dict[str, Any] = {"__metadata__": self._metadata}
        for name, (dtype, shape) in self._shapes.items():
            start = self._places[name]
            end = start + prod(shape) * np.dtype(_DTYPES[dtype]).itemsize
            header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}
        text = json.dumps(header).encode()
        text += b" " * (-(len(text) + 8) % _ALIGN)
        self._file.seek(0)
        self._file.write(struct.pack("<Q", len(text)) + text)
        return 8 + len(text)

    def add(self, name: str, array: Array) -> None:
        """The next elements of a tensor."""
        self._file.seek(self._start + self._ends[name])
        self._file.write(np.ascontiguousarray(array).data)
        self._ends[name] += array.nbytes
        self._filled -= array.nbytes

    def end(self, **metadata: str) -> None:
        """Replace texts of the metadata by others of the same length. Raises ValueError when tensors are not full."""
        if self._filled:
            raise ValueError(f"{self._filled} bytes of tensors were not written")
        self._metadata.update(metadata)
        if self._header() != self._start:
            raise ValueError(f"the metadata {sorted(metadata)} have another length now")


@contextmanager
def filling(path: Path, shapes: Shapes, metadata: Mapping[str, str]) -> Iterator[Filling]:
    """Write tensors of these element types and shapes, see ``writing``; wide elements come first, so that all are aligned."""
    with writing(path) as file:
        yield Filling(file, shapes, metadata)


def write_safetensors(
    path: Path, tensors: Mapping[str, tuple[str, Array]], metadata: Mapping[str, str]
) -> None:
    """Write ``{name: (element type, array)}``."""
    with filling(
        path, {name: (kind, array.shape) for name, (kind, array) in tensors.items()}, metadata
    ) as file:
        for name, (_, array) in tensors.items():
            file.add(name, array)
        file.end()
