"""From what the caller gives to the bytes of an input: what the vendor's runtime does on the CPU before it submits."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import InputInvalid, ModelInvalid
from rknnlite.formats import IoTensor
from rknnlite.layout import nc1hwc2_to_nchw, nchw_to_nhwc_shape
from rknnlite.quant import quantise, to_integer
from rknnlite.spi import Input
from rknnlite.spi.inputs import widened
from rknnlite.tensor import DType, Layout, TensorAttr

from .tensor_bytes import TensorBytes

__all__ = ["InputBytes"]

Array = NDArray[Any]
Bytes = NDArray[np.uint8]


class InputBytes:
    """One input of the model: how its bytes come about.

    Attributes:
        is_picture: its channels lie together, at most four.
    """

    def __init__(self, io: IoTensor, form: TensorBytes, native: TensorAttr, batch: int) -> None:
        self._io, self._form, self._native, self._batch = io, form, native, batch
        self._pixels = TensorBytes(form.name, form.shape, np.dtype(np.uint8), form.grid, form.picture)
        self._shape = (io.shape[0] * batch, *io.shape[1:])
        channels = io.shape[1] if len(io.shape) == 4 else 1
        self._mean, self._std = (
            _per_channel(values, channels, io) for values in (io.mean or (0.0,), io.std or (1.0,))
        )
        if not self._std.all():
            raise ModelInvalid(f"input {io.name} has a standard deviation of 0; convert the network again")
        self.is_picture = form.picture

    def is_pixels(self, item: Input) -> bool:
        """Whether it is a picture of bytes that the NPU could convert while it reads."""
        return item.data.dtype == np.uint8 and not item.pass_through and self._form.picture

    def items(self, item: Input, as_pixels: bool) -> list[Bytes]:
        """The bytes for each batch item: pixels untouched (``as_pixels``), or elements as the tensor stores them.

        Raises InputInvalid for a wrong shape, size or value.
        """
        if item.pass_through:
            elements = self._passed(item.data)
        else:
            elements = self._logical(item)
            if not as_pixels:
                elements = self._stored(elements)
        form = self._pixels if as_pixels else self._form
        step, found = self._io.shape[0] if self._io.shape else 1, []
        for number in range(self._batch):
            place = np.empty(form.nbytes, np.uint8)
            form.pack(elements[number * step : (number + 1) * step], place)
            found.append(place)
        return found

    def _logical(self, item: Input) -> Array:
        data = item.data
        if data.ndim == 4 and item.layout is not Layout.NCHW:
            data = data.transpose(0, 3, 1, 2)
        if tuple(data.shape) != self._shape:
            wanted = list(nchw_to_nhwc_shape(self._shape))
            raise InputInvalid(f"input {self._io.name}: expected {wanted}, got {list(item.nhwc_shape)}")
        return data[:, list(self._io.reorder)] if self._io.reorder else data

    def _stored(self, data: Array) -> Array:
        """(real - mean) / std in the tensor's type."""
        io = self._io
        if io.quant is None and not io.dtype.is_float:
            return to_integer(data, io.dtype.numpy)
        if data.dtype.kind == "f":
            data = widened(data)
            bad = data.size - int(np.count_nonzero(np.isfinite(data)))
            if bad:
                raise InputInvalid(
                    f"input {io.name}: {bad} of {data.size} values are NaN or infinite; clean the data"
                )
        real = np.asarray(data, np.float32)
        if data.ndim == 4:
            real = (real - self._mean) / self._std
        if io.quant is not None:
            return quantise(real, io.quant, io.dtype)
        if io.dtype is DType.BFLOAT16:
            bits = np.ascontiguousarray(real).view(np.uint32)
            return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
        return real.astype(io.dtype.numpy)

    def _passed(self, data: Array) -> Array:
        """Stored elements in the native layout, or NHWC where that is NC1HWC2."""
        native, shape = self._native, self._shape
        count, kind = prod(shape), native.dtype.numpy
        packed = native.layout is Layout.NC1HWC2
        if data.nbytes not in {n * kind.itemsize for n in ((count, native.n_elems) if packed else (count,))}:
            raise InputInvalid(
                f"input {self._io.name}: {data.nbytes} bytes passed through, {native.n_elems * kind.itemsize} needed "
                f"({native.dtype.name} {native.layout.name} {list(native.dims)})"
            )
        flat = np.ascontiguousarray(data).reshape(-1).view(kind)
        if packed and flat.size == native.n_elems:
            return nc1hwc2_to_nchw(flat.reshape(native.dims), shape[1])
        if native.layout in (Layout.NHWC, Layout.NC1HWC2):
            n, c, h, w = shape
            return flat.reshape(n, h, w, c).transpose(0, 3, 1, 2)
        return flat.reshape(shape)


def _per_channel(numbers: tuple[float, ...], channels: int, io: IoTensor) -> NDArray[np.float32]:
    if len(numbers) not in (1, channels):
        raise ModelInvalid(
            f"damaged file: {len(numbers)} numbers for the {channels} channels of input {io.name}"
        )
    return np.asarray(numbers, np.float32).reshape(1, -1, 1, 1)
