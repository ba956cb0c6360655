"""From the caller's array to the values of an input tensor: layout, mean/std, quantisation."""

from __future__ import annotations

import math

import numpy as np
from rknnlite_graph.graph import Tensor

from rknnlite.errors import InputInvalid, ModelInvalid
from rknnlite.formats import IoTensor
from rknnlite.layout import nc1hwc2_to_nchw
from rknnlite.log import logger
from rknnlite.spi import Input
from rknnlite.spi.inputs import widened
from rknnlite.tensor import DType, Layout, TensorAttr

from .values import Array, encode

__all__ = ["InputConversion", "on_npu"]


class InputConversion:
    """Prepared once per input; real = (pixel - mean[c]) / std[c], then as the tensor stores it.

    For uint8 data on a quantised tensor each channel has only 256 possible values: a table per channel.
    ``native`` is what the context reports: elements that pass through lie so. ``on_board``: pixels are converted in the
    integers that the runtime has the NPU use.
    """

    def __init__(self, io: IoTensor, tensor: Tensor, native: TensorAttr, on_board: bool = False) -> None:
        self._io, self._tensor, self._native = io, tensor, native
        self._on_board = on_board and on_npu(io, tensor)
        self._batch = max(1, native.dims[0] // max(1, io.shape[0]))
        channels = io.shape[1] if len(io.shape) == 4 else 0
        self._mean = _per_channel(io.mean, channels, 0.0)
        self._std = _per_channel(io.std, channels, 1.0)
        if channels and not self._std.all():
            raise ModelInvalid(f"input {io.name} has a standard deviation of 0; convert the network again")
        self._plain = not self._mean.any() and bool((self._std == 1).all())
        self._table: Array | None = None
        self._told = False

    def values(self, item: Input) -> list[Array]:
        """One value per batch item. Raises InputInvalid for wrong shape, size or values."""
        if item.pass_through:
            return self._passed(item.data)
        data = item.data
        shape = (self._io.shape[0] * self._batch, *self._io.shape[1:])
        if data.ndim == 4 and item.layout is not Layout.NCHW:
            data = data.transpose(0, 3, 1, 2)
        if tuple(data.shape) != shape:
            raise InputInvalid(
                f"input {self._io.name}: expected {list(shape)} (NCHW), got {list(data.shape)}"
            )
        if self._io.reorder:
            data = data[:, list(self._io.reorder)]
        value = self._convert(data)
        if self._batch == 1:
            return [value]
        step = self._io.shape[0]
        return [value[i * step : (i + 1) * step] for i in range(self._batch)]

    def _convert(self, data: Array) -> Array:
        if data.dtype == np.uint8 and data.ndim == 4 and (self._tensor.quant or self._tensor.dtype.is_float):
            return self._look_up(data)
        whole = not (self._tensor.quant or self._tensor.dtype.is_float)
        if data.dtype.kind == "f":
            data = data if whole else widened(data)
            self._check_finite(data)
        if whole:
            return np.ascontiguousarray(encode(data, self._tensor))
        real: Array = np.ascontiguousarray(data, np.float32)
        if not self._plain:
            shape = (1, -1, 1, 1)
            real = (real - self._mean.reshape(shape)) / self._std.reshape(shape)
        return self._stored(real)

    def _stored(self, real: Array) -> Array:
        """Quantised or rounded to bfloat16; the vendor's simulator does not round to float16, nor do we."""
        rounded = self._tensor.quant or self._tensor.dtype is DType.BFLOAT16
        return encode(real, self._tensor) if rounded else real

    def _look_up(self, data: Array) -> Array:
        if self._table is None:
            pixels = np.arange(256, dtype=np.float32)
            if self._on_board:
                self._table = _npu_values(self._io, self._tensor)
            else:
                self._table = self._stored((pixels - self._mean[:, None]) / self._std[:, None])
        out = np.empty(data.shape, np.float32)
        if len(self._table) == 1:
            self._table[0].take(data, out=out, mode="clip")
            return out
        for channel, row in enumerate(self._table):
            row.take(data[:, channel], out=out[:, channel], mode="clip")
        return out

    def _check_finite(self, data: Array) -> None:
        finite = np.isfinite(data)
        if not finite.all():
            bad = int(data.size - np.count_nonzero(finite))
            where = tuple(int(i) for i in np.argwhere(~finite)[0])
            raise InputInvalid(
                f"input {self._io.name}: {bad} of {data.size} values are NaN or infinite (first at {list(where)}); "
                "clean the data, or clip it to the range of float16 (65504)"
            )

    def _passed(self, data: Array) -> list[Array]:
        """Stored elements, untouched, in the native layout; NHWC will do where that is NC1HWC2."""
        io, native = self._io, self._native
        shape = (io.shape[0] * self._batch, *io.shape[1:])
        count = math.prod(shape)
        flat = self._elements(data, count)
        if native.layout is Layout.NC1HWC2 and flat.size == native.n_elems:
            stored = nc1hwc2_to_nchw(flat.reshape(native.dims), shape[1])
        elif native.layout in (Layout.NHWC, Layout.NC1HWC2):
            n, c, h, w = shape
            stored = flat.reshape(n, h, w, c).transpose(0, 3, 1, 2)
        else:
            stored = flat.reshape(shape)
        value = self._centred(stored)
        step = io.shape[0]
        return [value[i * step : (i + 1) * step] for i in range(self._batch)]

    def _elements(self, data: Array, count: int) -> Array:
        """The bytes of ``data`` as elements of the tensor, as a board takes them; of numbers float32 for float16 alone.

        Raises InputInvalid unless there are as many as ``count`` elements take, or as the native tensor does.
        """
        native, size = self._native, self._native.dtype.numpy.itemsize
        counts = {count, native.n_elems} if native.layout is Layout.NC1HWC2 else {count}
        if native.dtype is DType.FLOAT16 and data.dtype == np.float32 and data.size in counts:
            return self._halved(data)
        if data.nbytes not in {n * size for n in counts}:
            raise InputInvalid(
                f"input {self._io.name}: {data.nbytes} bytes given to be passed through ({data.size} {data.dtype} elements), "
                f"{native.n_elems * size} bytes needed ({native.dtype.name} {native.layout.name} {list(native.dims)}); "
                "pass through what the tensor stores, or leave pass_through out and real values are converted"
            )
        return np.ascontiguousarray(data).reshape(-1).view(native.dtype.numpy)

    def _halved(self, data: Array) -> Array:
        """float32 for a float16 tensor: librknnrt wants four bytes per element then; what it does with them is not known."""
        if not self._told:
            self._told = True
            logger.warning(
                "input %s: float32 passed through to a FLOAT16 tensor: values are rounded, without mean and deviation (librknnrt "
                "takes that many bytes, what a board makes of them is not known); give float16, or leave pass_through out",
                self._io.name,
            )
        with np.errstate(over="ignore"):
            halved = data.reshape(-1).astype(np.float16)
        self._check_finite(halved)
        return halved

    def _centred(self, stored: Array) -> Array:
        if self._tensor.quant is not None:
            return np.ascontiguousarray(stored, np.float32) - np.float32(self._tensor.quant.zero_point)
        if self._tensor.dtype is DType.BFLOAT16:
            return (np.ascontiguousarray(stored).astype(np.uint32) << 16).view(np.float32)
        if self._tensor.dtype.is_float:
            return np.ascontiguousarray(stored, np.float32)
        return np.ascontiguousarray(stored)


def on_npu(io: IoTensor, tensor: Tensor) -> bool:
    """Whether the runtime has the NPU convert uint8 pixels for an input, given them in the order of its channels."""
    from rknnlite_graph.pixel_factors import MOST_CHANNELS  # few ask for a board's conversion

    return (
        len(io.shape) == 4
        and 1 <= io.shape[1] <= MOST_CHANNELS
        and tensor.dtype is DType.INT8
        and tensor.quant is not None
    )


def _npu_values(io: IoTensor, tensor: Tensor) -> Array:
    """[channels, 256]: centred values of all pixels. Raises ModelInvalid for factors that registers do not hold."""
    from rknnlite_graph.pixel_factors import channel_factors

    assert tensor.quant is not None
    pixels = np.arange(256, dtype=np.float64)
    rows = [
        np.rint(pixels * factor.scale * 2.0**-factor.shift) + factor.offset
        for factor in channel_factors(io, io.shape[1])[: io.shape[1]]
    ]
    return (np.clip(rows, -128, 127) - tensor.quant.zero_point).astype(np.float32)


def _per_channel(numbers: tuple[float, ...], channels: int, default: float) -> Array:
    if not channels:
        return np.full(1, numbers[0] if len(numbers) == 1 else default, np.float32)
    if len(numbers) == 1:
        return np.full(channels, numbers[0], np.float32)
    if len(numbers) == channels:
        return np.asarray(numbers, np.float32)
    return np.full(channels, default, np.float32)
