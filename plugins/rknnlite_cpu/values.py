"""How values live while a graph runs, and the way from real numbers to them and back.

Quantised tensors are carried as float32 arrays of *centred* integers ``v = q - zero_point``: real = v * scale,
padding is 0, and float32 matrix products of them are exact below 2**24. Floating tensors are carried as
float32 that is representable in their own type. Integer and bool tensors keep their numpy type.

Rounding happens where the simulator stores a tensor: after each node, and between a convolution and a fused activation that the
simulator runs apart. The NPU may round once less there; its own result then lies within the last float16 bit. Inputs are not
rounded to float16 before the first layer, because the simulator does not do it either, and outputs are bit-identical only so.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_graph.graph import Tensor

from rknnlite.quant import RANGES, to_integer
from rknnlite.spi.custom_op import tell_nan
from rknnlite.tensor import DType

from .kernels.buffers import empty

__all__ = [
    "Array",
    "Kernel",
    "OutputStage",
    "centred_range",
    "decode",
    "encode",
    "round_bf16",
    "round_f16",
    "stored_elements",
    "storing",
]

Array = NDArray[Any]
Kernel = Callable[[list[Array]], "list[Array]"]
"""Runtime values of the non-constant inputs -> values of the outputs."""
OutputStage = Callable[[Array, Optional[Array], slice, Array], None]
"""(accumulator block, operand block, its channels, output block)."""


def round_f16(values: Array, out: Array | None = None) -> Array:
    """float32 -> nearest float16, as float32, in ``out`` where given; that may be ``values``."""
    return _round_half()(values, out)


@functools.cache
def _round_half() -> Callable[[Array, Array | None], Array]:
    from .kernels.half import round_half  # many networks have no float16 at all

    return round_half


def round_bf16(values: Array) -> Array:
    """float32 -> nearest bfloat16 (ties to even), as float32."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    result = (rounded & np.uint32(0xFFFF0000)).view(np.float32)
    return np.where(np.isfinite(values), result, values)


def centred_range(tensor: Tensor) -> tuple[np.float32, np.float32]:
    """Smallest and largest centred value of a quantised tensor."""
    assert tensor.quant is not None
    return _centred(tensor.dtype, tensor.quant.zero_point)


@functools.lru_cache(maxsize=1024)
def _centred(dtype: DType, zero_point: int) -> tuple[np.float32, np.float32]:
    low, high = RANGES.get(dtype, (-(2**31), 2**31 - 1))
    return np.float32(low - zero_point), np.float32(high - zero_point)


def decode(values: Array, tensor: Tensor) -> Array:
    """Runtime value -> real value (integers without scale stay integers)."""
    if tensor.quant is None:
        return values
    place = empty(values.shape) if values.dtype == np.float32 else None
    return np.asarray(np.multiply(values, np.float32(tensor.quant.scale), out=place))


def encode(real: Array, tensor: Tensor, where: str = "") -> Array:
    """Real value -> runtime value of ``tensor``: quantised, rounded to its float type, or cast.

    A NaN in integers is stored as 0; ``where`` names the node in the warning about it.
    """
    if tensor.quant is not None:
        real = np.asarray(real, np.float32)
        out = empty(real.shape)
        _quantise(real, tensor, out, where)
        return out
    if tensor.dtype is DType.FLOAT16:
        return round_f16(np.asarray(real, np.float32))
    if tensor.dtype is DType.BFLOAT16:
        return round_bf16(np.asarray(real, np.float32))
    if tensor.dtype is DType.FLOAT32:
        return np.asarray(real, np.float32)
    real = np.asarray(real)
    if real.dtype.kind == "f" and np.isnan(real.min(initial=0)):
        tell_nan(where or "a node", tensor.name, tensor.dtype.short)
    return to_integer(real, tensor.dtype.numpy)


def storing(tensor: Tensor) -> Callable[[Array, Array], Any]:
    """``(real, out)``: as ``encode``, into a float32 array ``out``, which may be ``real``."""
    if tensor.quant is not None:
        return lambda real, out: _quantise(np.asarray(real, np.float32), tensor, out)
    if tensor.dtype is DType.FLOAT16:
        return _round_half()

    def store(real: Array, out: Array) -> None:
        if real is not out or tensor.dtype is not DType.FLOAT32:
            out[...] = encode(real, tensor)

    return store


def _quantise(real: Array, tensor: Tensor, out: Array, where: str = "") -> None:
    assert tensor.quant is not None
    np.divide(real, np.float32(tensor.quant.scale), out=out)
    if tensor.zero_first:
        np.add(out, np.float32(tensor.quant.zero_point), out=out)
        np.rint(out, out=out)
        np.subtract(out, np.float32(tensor.quant.zero_point), out=out)
    else:
        np.rint(out, out=out)
    out.clip(*centred_range(tensor), out=out)
    if np.isnan(out.min(initial=0)):  # one pass: the smallest of anything with a NaN is NaN
        tell_nan(where or "a node", tensor.name, tensor.dtype.short)
        out[np.isnan(out)] = -tensor.quant.zero_point


def stored_elements(value: Array, tensor: Tensor) -> Array:
    """Runtime value -> elements as the tensor stores them (bfloat16 as uint16)."""
    if tensor.quant is not None:
        return (value + np.float32(tensor.quant.zero_point)).astype(tensor.dtype.numpy)
    if tensor.dtype.is_float and tensor.dtype.name == "BFLOAT16":
        return (np.ascontiguousarray(value, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return np.array(value, tensor.dtype.numpy, order="C")
