"""Memory of the common path that both processes have mapped: inputs as the program gave them, outputs for it."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_capi import input_of

from rknnlite.abi.rknn_api import InputStruct
from rknnlite.errors import OutOfMemory, ParamInvalid
from rknnlite.log import logger
from rknnlite.spi import Context, Input
from rknnlite.tensor import Layout, TensorAttr

__all__ = ["StagedInputs", "StagedOutputs"]

Array = NDArray[Any]


_TOLD = struct.Struct("=5I")
_WISH = struct.Struct("=2I")
_PLACE = struct.Struct("=3Q")


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
        self._at = 0
        self._needs: list[int] = []
        for item in given:
            self.inputs.append(input_of(opened, item, self._place, lenient=True))
            self._at += _aligned(item.size)
            self._warn(item)
        self.by_index = {item.index: item for item in self.inputs}
        self.complete = list(self.by_index) == list(range(len(opened.inputs)))
        """There is one for each input of the model, in their order."""

    @property
    def needs(self) -> bytes:
        """How many bytes of each input are taken, for the program."""
        return struct.pack(f"={len(self._needs)}I", *self._needs)

    def _place(self, size: int) -> Array:
        self._needs.append(size)
        return self._bytes[self._at : self._at + size]

    def _warn(self, item: InputStruct) -> None:
        """What is taken here, and what a board does with it."""
        taken = self.inputs[-1]
        if self._needs[-1] < item.size:
            logger.warning(
                "rknn_inputs_set: input %d has %d bytes, the first %d are taken",
                item.index,
                item.size,
                self._needs[-1],
            )
        if taken.layout is Layout.NCHW and not taken.pass_through:
            logger.warning(
                "rknn_inputs_set: input %d is given as NCHW, which is turned here; librknnrt 2.3 refuses it where it "
                "normalises: give NHWC",
                item.index,
            )


class StagedOutputs:
    """Outputs as they were last asked for. Their memory grows when they do; the program then gets it anew."""

    def __init__(self) -> None:
        self._asked = b""
        self._said: set[bytes] = set()
        self._wanted: list[bool] = []
        self._chosen: list[int] = []
        self._whole = True  # all outputs, in their order
        self._map: Optional[mmap.mmap] = None
        self._fd = -1
        self._arrays: list[Array] = []
        self._alike: Optional[bool] = None
        self._fitting: Optional[list[TensorAttr]] = None  # attributes that ``_arrays`` were seen to fit
        self._places = b""
        self.places_to_send = b""
        """Offset, size and index of each, where the program does not know them."""
        self.size = 0
        self.fd_to_send: list[int] = []

    def ask(self, opened: Context, wishes: bytes) -> None:
        """Index of each output that is wanted, and whether in float32 or as it is stored, from now on.

        Raises ParamInvalid: more outputs than there are.
        """
        if wishes != self._asked:
            indices, kinds = zip(*_WISH.iter_unpack(wishes))
            self._chosen = _chosen(indices, len(opened.outputs))
            self._asked, self._arrays, self._places, self._fitting = wishes, [], b"", None
            self._wanted = [bool(kind) for kind in kinds]
            self._alike = self._wanted[0] if len(set(kinds)) == 1 else None
            self._whole = self._chosen == list(range(len(opened.outputs)))
            if not self._whole and wishes not in self._said:
                self._said.add(wishes)
                logger.warning(
                    "rknn_outputs_get: %s of %d outputs are given", self._chosen, len(opened.outputs)
                )
        self.places_to_send = self._places

    def fetch(self, opened: Context) -> None:
        """Put the outputs of the last run into the memory. Raises what ``get_outputs`` raises, and OutOfMemory."""
        attrs = opened.outputs
        if self._whole and self._alike is not None and (attrs is self._fitting or self._fits(attrs)):
            opened.get_outputs_into(self._arrays, self._alike)
            return
        results = self._results(opened)
        if [(a.shape, a.dtype) for a in results] != [(a.shape, a.dtype) for a in self._arrays]:
            self._place(results)
        for array, result in zip(self._arrays, results):
            array[...] = result

    def _fits(self, attrs: list[TensorAttr]) -> bool:
        """Whether outputs fit the memory as it is; asked when their attributes are others than those of the last frame."""
        fit = [a.shape for a in self._arrays] == [tuple(attr.dims) for attr in attrs]
        self._fitting = attrs if fit else None
        return fit

    def _results(self, opened: Context) -> list[Array]:
        forms = {kind: opened.get_outputs(kind) for kind in sorted(set(self._wanted))}
        return [np.asarray(forms[kind][index]) for index, kind in zip(self._chosen, self._wanted)]

    def _place(self, results: Sequence[Array]) -> None:
        offsets, need = [], 0
        for array in results:
            offsets.append(need)
            need += _aligned(array.nbytes)
        if need > self.size or self._map is None:
            self._renew(max(1, need))
        assert self._map is not None
        self._fitting = None
        self._arrays = [
            np.frombuffer(self._map, a.dtype, a.size, at).reshape(a.shape) for a, at in zip(results, offsets)
        ]
        parts = zip(offsets, results, self._chosen)
        self._places = b"".join(_PLACE.pack(at, array.nbytes, index) for at, array, index in parts)
        self.places_to_send = self._places

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
        self._fd, self._map, self._arrays, self._fitting, self.size = -1, None, [], None, 0


def _chosen(indices: Sequence[int], have: int) -> list[int]:
    """Which outputs a program means: those that it names; those in front where it does not name different ones.

    The vendor's demos of 2022 leave every index at 0 and take the outputs in their order.
    """
    count = len(indices)
    if count > have:
        raise ParamInvalid(f"{count} outputs asked for, the model has {have}")
    named = len(set(indices)) == count and max(indices) < have
    return list(indices) if named else list(range(count))
