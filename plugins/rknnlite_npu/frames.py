"""What a context keeps of frames: inputs of the next one, outputs of the last two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.formats import IoTensor
from rknnlite.quant import dequantise
from rknnlite.spi import Input
from rknnlite.tensor import DType

from .tensor_bytes import TensorBytes

__all__ = ["FrameInputs", "Frames", "NpuOutputs"]

Array = NDArray[Any]
Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class FrameInputs:
    """Attributes:
    items: per input its bytes for each batch item.
    pixels: inputs of few channels are uint8 pixels.
    """

    items: list[list[Bytes]]
    pixels: bool


@dataclass
class NpuOutputs:
    """Outputs of one frame, as the NPU left them until somebody asks.

    Attributes:
        ios: what the file says of each.
        forms: how the bytes of each lie.
        left: per output the bytes of each batch item; none where the NPU wrote them into memory of the program's.
        number: that of the frame.
    """

    ios: Sequence[IoTensor]
    forms: Sequence[TensorBytes]
    left: Sequence[Sequence[Bytes]]
    number: int = 0

    @cached_property
    def stored(self) -> list[Array]:
        """As the file stores them, in logical order, batch items behind each other; empty where there are no bytes."""
        return [_joined([form.unpack(item) for item in items]) for form, items in zip(self.forms, self.left)]

    def elements(self) -> list[Array]:
        """Stored elements in logical order; bfloat16 as its 16 bits."""
        return [array.copy() for array in self.stored]

    def floats(self) -> list[Array]:
        """Real values in float32."""
        return [_real(array, io) for array, io in zip(self.stored, self.ios)]


def _joined(parts: list[Array]) -> Array:
    if not parts:
        return np.empty(0)
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _real(stored: Array, io: IoTensor) -> Array:
    if io.quant is not None:
        return dequantise(stored, io.quant) + np.float32(0)  # no integer is a negative zero
    if io.dtype is DType.BFLOAT16:
        return (stored.astype(np.uint32) << 16).view(np.float32)
    return stored.astype(np.float32)


@dataclass
class Frames:
    """Numbered from 0."""

    inputs: Optional[FrameInputs] = None
    given: Optional[Sequence[Input]] = None
    """What ``set_inputs`` was given, for inputs that have no memory while others have."""
    done: list[NpuOutputs] = field(default_factory=list)
    """The last two."""
    count: int = 0
    fetched: int = 0
    last_us: int = 0

    @property
    def newest(self) -> Optional[int]:
        """Number of the last frame that has begun; None before the first."""
        return self.count - 1 if self.count else None

    def begin(self) -> int:
        """The number of a frame that begins."""
        self.count += 1
        return self.count - 1

    def end(self, frame: Optional[NpuOutputs]) -> None:
        """A frame is done, or (None) has failed: then there is nothing to be had of it."""
        self.done = [*self.done[-1:], *(() if frame is None else (frame,))]

    def frame(self, number: int) -> Optional[NpuOutputs]:
        """One of the last two by its number."""
        return next((frame for frame in self.done if frame.number == number), None)
