"""Memory of the common path that both processes have mapped: inputs as the program gave them, outputs for it."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.abi.rknn_api import InputStruct
from rknnlite.capi import input_of
from rknnlite.errors import OutOfMemory, ParamInvalid
from rknnlite.spi import Context, Input

__all__ = ["StagedInputs", "StagedOutputs"]

Array = NDArray[Any]


_TOLD = struct.Struct("=5I")


def _input(index: int, size: int, pass_through: int, kind: int, fmt: int) -> InputStruct:
    return InputStruct(index=index, size=size, pass_through=pass_through, type=kind, fmt=fmt)


def _aligned(size: int) -> int:
    return (size + 63) & ~63


class StagedInputs:
    """Inputs of one kind: where each lies in the memory, looked at once, as arrays over it."""

    def __init__(self, opened: Context, structs: bytes, count: int, fd: int, size: int) -> None:
        given = [_input(*numbers) for numbers in _TOLD.iter_unpack(structs[: count * _TOLD.size])]
        self._bytes = np.frombuffer(mmap.mmap(fd, max(1, size)), np.uint8)
        self.inputs: list[Input] = []
        at = 0
        for item in given:
            place = self._bytes[at : at + item.size]
            self.inputs.append(input_of(opened, item, lambda _, place=place: place))  # type: ignore[misc]
            at += _aligned(item.size)


class StagedOutputs:
    """Outputs as they were last asked for. Their memory grows when they do; the program then gets it anew."""

    def __init__(self) -> None:
        self._wanted: list[bool] = []
        self._map: Optional[mmap.mmap] = None
        self._fd = -1
        self._arrays: list[Array] = []
        self._alike: Optional[bool] = None
        self.places = b""
        """Offset and size of each, for the program."""
        self.size = 0
        self.fd_to_send: list[int] = []

    def ask(self, wanted: Sequence[bool]) -> None:
        """Outputs in float32 (True) or as they are stored, from now on."""
        if list(wanted) != self._wanted:
            self._wanted, self._arrays = list(wanted), []
            self._alike = wanted[0] if len(set(wanted)) == 1 else None

    def fetch(self, opened: Context) -> None:
        """Put the outputs of the last run into the memory. Raises what ``get_outputs`` raises, and OutOfMemory."""
        if self._alike is not None and self._fits(opened):
            opened.get_outputs_into(self._arrays, self._alike)
            return
        results = self._results(opened)
        if [(a.shape, a.dtype) for a in results] != [(a.shape, a.dtype) for a in self._arrays]:
            self._place(results)
        for array, result in zip(self._arrays, results):
            array[...] = result

    def _fits(self, opened: Context) -> bool:
        attrs = opened.outputs
        return len(attrs) == len(self._arrays) and all(
            a.shape == tuple(attr.dims) for a, attr in zip(self._arrays, attrs)
        )

    def _results(self, opened: Context) -> list[Array]:
        if len(self._wanted) != len(opened.outputs):
            raise ParamInvalid(f"{len(self._wanted)} outputs asked for, the model has {len(opened.outputs)}")
        forms = {kind: opened.get_outputs(kind) for kind in sorted(set(self._wanted))}
        return [np.asarray(forms[kind][index]) for index, kind in enumerate(self._wanted)]

    def _place(self, results: Sequence[Array]) -> None:
        offsets, need = [], 0
        for array in results:
            offsets.append(need)
            need += _aligned(array.nbytes)
        if need > self.size or self._map is None:
            self._renew(max(1, need))
        assert self._map is not None
        self._arrays = [
            np.frombuffer(self._map, a.dtype, a.size, at).reshape(a.shape) for a, at in zip(results, offsets)
        ]
        self.places = b"".join(struct.pack("=QQ", at, a.nbytes) for a, at in zip(results, offsets))

    def _renew(self, size: int) -> None:
        self.close()
        try:
            self._fd = os.memfd_create("rknnlite-outputs")
            os.ftruncate(self._fd, size)
            self._map = mmap.mmap(self._fd, size)
        except OSError as error:
            raise OutOfMemory(f"no memory for outputs of {size} bytes: {error.strerror}") from None
        self.size = size
        self.fd_to_send = [self._fd]

    def close(self) -> None:
        """Give the memory back; the program keeps its own mapping."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._map, self._arrays, self.size = -1, None, [], 0
