"""The tensors of a run of librknn3_api: arrays over the program's memory, laid out as the attributes say.

Nothing is converted: elements go in and come out as they are stored, inputs of rank 4 as NHWC, outputs as NCHW.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from numpy.typing import NDArray

from rknnlite.errors import InputInvalid, OutputInvalid, ParamInvalid, RknnError
from rknnlite.layout import nchw_to_nc1hwc2
from rknnlite.spi import Context, Input
from rknnlite.tensor import Layout, TensorAttr

from ..packed import Packed

__all__ = ["Feed"]

Array = NDArray[Any]


class Feed:
    """Inputs and outputs of a run by the memory that holds them."""

    def __init__(self, opened: Context, told: bytes, memories: Mapping[int, Array]) -> None:
        """Raises InputInvalid, OutputInvalid for tensors that are missing, twice, too small."""
        packed = Packed(told)
        n_inputs, n_outputs = packed.number(), packed.number()
        self.told = told
        self._inputs = _arrays(packed, n_inputs, opened.inputs, memories, InputInvalid, "input")
        self._outputs = _arrays(packed, n_outputs, opened.outputs, memories, OutputInvalid, "output")
        self._natives = opened.native_inputs
        self.text: Optional[str] = packed.path()

    def inputs(self) -> list[Input]:
        """What the network takes, from what lies in the memory now."""
        return [_input(array, native) for array, native in zip(self._inputs, self._natives)]

    def fetch(self, opened: Context) -> None:
        """Put the results of a run into the memory."""
        opened.get_outputs_into(self._outputs, want_float=False)


def _arrays(
    packed: Packed,
    count: int,
    attrs: list[TensorAttr],
    memories: Mapping[int, Array],
    error: type[RknnError],
    kind: str,
) -> list[Array]:
    """One array per tensor of the model, in its order."""
    given = {packed.number(): packed.number() for _ in range(count)}
    if count != len(attrs) or sorted(given) != list(range(len(attrs))):
        raise error(
            f"{count} {kind}s with indices {sorted(given)} are given, the model has 0 to {len(attrs) - 1}"
        )
    return [_array(attr, given[index], memories, error, kind) for index, attr in enumerate(attrs)]


def _array(
    attr: TensorAttr, number: int, memories: Mapping[int, Array], error: type[RknnError], kind: str
) -> Array:
    if number not in memories:
        raise ParamInvalid(f"this context knows no memory {number}")
    memory = memories[number]
    if len(memory) < attr.size:
        raise error(f"{kind} {attr.name} has {attr.size} bytes, its memory {len(memory)}")
    return memory[: attr.size].view(attr.dtype.numpy).reshape(attr.dims)


def _input(array: Array, native: TensorAttr) -> Input:
    if native.layout is Layout.NC1HWC2:
        array = nchw_to_nc1hwc2(array.transpose(0, 3, 1, 2), native.dims[-1])
    return Input(native.index, array, native.layout, pass_through=True)
