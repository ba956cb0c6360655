"""Tensor attributes of librknn3_api and how its tensors look to a program."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rknnlite.abi.rknn3_enums import RKNN3_MAX_DIMS, RKNN3TensorLayout, RKNN3TensorQntType
from rknnlite.abi.rknn3_enums import RKNN3QueryCmd as Query
from rknnlite.errors import ModelUnsupported, ParamInvalid, RknnError
from rknnlite.layout import nchw_to_nhwc_shape, nhwc_to_nchw_shape
from rknnlite.tensor import DType, Layout, QuantParams, TensorAttr

from .native_context import NativeContext, text

__all__ = ["Tensor3", "from_shape", "query_tensor", "tensors"]

_TYPES = {
    0: DType.FLOAT32,
    1: DType.FLOAT16,
    2: DType.INT8,
    3: DType.UINT8,
    4: DType.INT16,
    5: DType.UINT16,
    6: DType.INT32,
    7: DType.UINT32,
    8: DType.INT64,
    9: DType.INT64,
    10: DType.BOOL,
    13: DType.BFLOAT16,
}
"""Element types; UINT64 (9) has no word of its own here and is carried as INT64."""
_LAYOUTS = {
    RKNN3TensorLayout.RKNN3_TENSOR_NCHW: Layout.NCHW,
    RKNN3TensorLayout.RKNN3_TENSOR_NHWC: Layout.NHWC,
    RKNN3TensorLayout.RKNN3_TENSOR_NC1HWC2: Layout.NC1HWC2,
}
_PER_LAYER = (
    RKNN3TensorQntType.RKNN3_TENSOR_PER_LAYER_SYMMETRIC,
    RKNN3TensorQntType.RKNN3_TENSOR_PER_LAYER_ASYMMETRIC,
)
_MAX_BYTES = 1 << 40
_RANKS = {Layout.NCHW: 4, Layout.NHWC: 4, Layout.NC1HWC2: 5}


@dataclass(frozen=True)
class Tensor3:
    """One input or output.

    Attributes:
        native: what the runtime takes or leaves: dims, layout and type of the bytes.
        logical: the same for a program: rank 4 is NHWC for inputs and NCHW for outputs.
        struct: the attribute for calls into C.
        size: bytes to allocate.
        core_id: core in whose memory it lies.
        readable: False when it is quantised per channel or group, with parameters that no query tells.
    """

    native: TensorAttr
    logical: TensorAttr
    struct: Any
    size: int
    core_id: int
    readable: bool = True

    @property
    def nbytes(self) -> int:
        """Bytes of the native elements, without padding behind them."""
        return self.native.n_elems * self.native.dtype.numpy.itemsize


def query_tensor(context: NativeContext, command: int, index: int, is_input: bool) -> Tensor3:
    """One tensor by its index; raises the typed error of the query, or ModelUnsupported."""
    struct = context.abi.RKNN3TensorAttr(index=index)
    context.query(command, struct, f"there is no tensor {index}" if command else "")
    return _tensor(struct, is_input, _channels(context, command, struct, is_input))


def tensors(context: NativeContext, command: int, count: int, is_input: bool) -> list[Tensor3]:
    """All inputs or all outputs."""
    return [query_tensor(context, command, index, is_input) for index in range(count)]


def from_shape(struct: Any, is_input: bool, known: Tensor3) -> Tensor3:
    """A tensor of another shape of a dynamic model; ``known`` is the same tensor in the current one."""
    channels = 0
    if known.logical.layout is not Layout.UNDEFINED:
        channels = known.logical.dims[3 if is_input else 1]
    return _tensor(struct, is_input, channels)


def _channels(context: NativeContext, command: int, struct: Any, is_input: bool) -> int:
    """Channels of an NC1HWC2 tensor without the padding lanes; 0 where nobody says."""
    if struct.layout != RKNN3TensorLayout.RKNN3_TENSOR_NC1HWC2 or struct.n_dims != 5:
        return 0
    if hasattr(struct, "n_orig_dims"):
        dims, layout = tuple(struct.orig_shape[: struct.n_orig_dims]), struct.orig_layout
    else:
        origin = context.abi.RKNN3TensorAttr(index=struct.index)
        plain = Query.RKNN3_QUERY_NATIVE_INPUT_ATTR if is_input else Query.RKNN3_QUERY_NATIVE_OUTPUT_ATTR
        try:
            context.query(plain, origin)
        except ParamInvalid:
            return 0
        dims, layout = tuple(origin.shape[: min(origin.n_dims, RKNN3_MAX_DIMS)]), origin.layout
    if len(dims) != 4:
        return 0
    c1, c2 = struct.shape[1], struct.shape[4]
    channels = dims[3] if layout == RKNN3TensorLayout.RKNN3_TENSOR_NHWC else dims[1]
    return channels if 0 < channels <= c1 * c2 and -(-channels // c2) == c1 else 0


def _tensor(struct: Any, is_input: bool, channels: int) -> Tensor3:
    name = text(struct.name)
    native = TensorAttr(
        index=struct.index,
        name=name,
        dims=_dims(struct, name),
        dtype=_type(struct, name),
        layout=_LAYOUTS.get(struct.layout, Layout.UNDEFINED),
        quant=_quant(struct),
        size_with_stride=struct.aligned_size,
    )
    if len(native.dims) != _RANKS.get(native.layout, len(native.dims)):
        raise RknnError(
            f"the library answers layout {native.layout.name} with dims {list(native.dims)} for {name}"
        )
    quantised = struct.qnt_type != RKNN3TensorQntType.RKNN3_TENSOR_QNT_NONE
    found = Tensor3(
        native,
        _logical(native, is_input, channels),
        struct,
        struct.aligned_size,
        struct.core_id,
        native.quant is not None or not quantised,
    )
    if not found.nbytes <= found.size <= _MAX_BYTES:
        raise RknnError(
            f"the library answers {found.size} bytes for tensor {name}, whose elements are {found.nbytes} bytes"
        )
    return found


def _dims(struct: Any, name: str) -> tuple[int, ...]:
    rank = struct.n_dims
    if rank > RKNN3_MAX_DIMS:
        raise RknnError(f"the library answers rank {rank} for tensor {name}; {RKNN3_MAX_DIMS} is possible")
    return tuple(struct.shape[:rank])


def _type(struct: Any, name: str) -> DType:
    try:
        return _TYPES[struct.dtype]
    except KeyError:
        raise ModelUnsupported(
            f"tensor {name} has element type {struct.dtype} of librknn3_api, which no numpy type carries; "
            "convert the model with another input or output type"
        ) from None


def _quant(struct: Any) -> QuantParams | None:
    if struct.qnt_type in _PER_LAYER:
        return QuantParams(struct.qnt_info.scale, struct.qnt_info.zero_point)
    return None


def _logical(native: TensorAttr, is_input: bool, channels: int) -> TensorAttr:
    if native.layout is Layout.UNDEFINED:
        return replace(native, size_with_stride=0)
    if native.layout is Layout.NC1HWC2:
        n, c1, h, w, c2 = native.dims
        nchw: tuple[int, ...] = (n, channels or c1 * c2, h, w)
    elif native.layout is Layout.NHWC:
        nchw = nhwc_to_nchw_shape(native.dims)
    else:
        nchw = native.dims
    if is_input:
        return replace(native, dims=nchw_to_nhwc_shape(nchw), layout=Layout.NHWC, size_with_stride=0)
    return replace(native, dims=nchw, layout=Layout.NCHW, size_with_stride=0)
