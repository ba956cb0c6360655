"""The forms in which a convolution's weights may be stored, and how each is decoded.

Integers and halves in the element type of the data; compressed; 4-bit integers, and 8-bit integers, on
float16 data; lane pairs with zero points (depthwise on newer NPUs); the packed order of first layers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from math import prod
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelUnsupported
from rknnlite.formats.flatbuffer import Table
from rknnlite.formats.slots import StorageForm, TensorSlot
from rknnlite.tensor import DType

from ..graph import Node, Tensor
from . import weights
from .npu_families import NpuFamily
from .tensor_storage import Expansion, Storage

__all__ = ["INTEGERS", "Form", "Loader", "Shape", "StoredWeight", "WeightReader", "from_bfloat"]

INTEGERS = (DType.INT8, DType.INT16)
_HALVES = (DType.FLOAT16, DType.BFLOAT16)
_OPAQUE = 0  # element type of compressed weights
Shape = tuple[int, int, int, int]
Loader = Callable[[], NDArray[Any]]


class Form(Enum):
    """How the numbers of a weight relate to the data they meet."""

    SAME = "same type as the data"
    NIBBLES = "4-bit integers on float16 data"
    BYTES = "8-bit integers on float16 data"


@dataclass
class StoredWeight:
    """``load`` decodes to [OC, IC, kh, kw]; ``zero_point`` where it lies beside the weights, ``scale`` per
    output channel of 4-bit weights."""

    load: Loader
    form: Form = Form.SAME
    zero_point: Optional[NDArray[np.float32]] = None
    scale: Optional[NDArray[np.float32]] = None


class WeightReader:
    """Decodes the weights of one graph; what cannot be decoded is refused with its reason."""

    def __init__(self, family: NpuFamily, tables: list[Table], storage: Storage) -> None:
        self._family = family
        self._tables = tables
        self._storage = storage
        self._expansion = Expansion(storage.size)

    def check_form(self, x: Tensor, w: Tensor, channels: int) -> None:
        """Refuse forms of which a file does not say enough; ``channels``: output channels of the node."""
        form = self._tables[w.index].i8(TensorSlot.STORAGE)
        if form == StorageForm.SPARSE:
            raise ModelUnsupported(
                f"weight {w.name}: sparse (2:4) weights are not supported; convert without sparse_infer"
            )
        if form not in (StorageForm.PLAIN, StorageForm.COMPRESSED):
            raise ModelUnsupported(
                f"weight {w.name}: storage form {form} is unknown; convert the network again"
            )
        if w.dtype is DType.INT4 and w.shape[1] < x.shape[1] and w.shape[0] == channels:
            raise ModelUnsupported(
                f"weight {w.name}: 4-bit weights in groups of {w.shape[1]} input channels; the converter leaves out "
                "the scales of all groups but the first: convert with quantized_method='channel'"
            )

    def read(
        self, node: Node, x: Tensor, w: Tensor, shape: Shape, depthwise: bool, per_channel: bool
    ) -> StoredWeight:
        """The weight ``w`` of ``node``, whose data ``x`` decide the element type.

        Args:
            per_channel: the layer has a zero point and a multiplier for each output channel.
        """
        table = self._tables[w.index]
        form, code = table.i8(TensorSlot.STORAGE), table.i8(TensorSlot.TYPE)
        data = self._storage.of(w.index)
        if not len(data):
            raise ModelUnsupported(
                f"weight {w.name} is empty: the weights were removed (remove_weight=True); this model only runs "
                "beside the master model that holds them"
            )
        if x.dtype not in (*INTEGERS, *_HALVES):
            raise ModelUnsupported(f"node {node.label()}: {x.dtype.short} data on the NPU are not supported")
        if form == StorageForm.COMPRESSED or code == _OPAQUE:
            return StoredWeight(_standard(self._expanded(table, data, x, w), w, shape, depthwise))
        if w.dtype is DType.INT4 and x.dtype is DType.FLOAT16 and not depthwise:
            return self._nibbles(data, w, shape)
        if w.dtype is DType.INT8 and x.dtype is DType.FLOAT16 and not depthwise:
            return StoredWeight(
                partial(weights.unpack_byte_blocks, _flat(data, w), shape, w.name), Form.BYTES
            )
        if w.dtype is not x.dtype:
            raise ModelUnsupported(
                f"weight {w.name}: {w.dtype.short} weights on {x.dtype.short} data are not supported"
            )
        return self._same_type(_flat(data, w), w, shape, depthwise, per_channel)

    def _same_type(
        self, flat: NDArray[Any], w: Tensor, shape: Shape, depthwise: bool, per_channel: bool
    ) -> StoredWeight:
        native = w.native_shape
        stored = sum(prod(part) for part in weights.segments(native, w.name))
        paired = depthwise and per_channel and self._family.paired_depthwise and w.dtype in INTEGERS
        if paired and flat.size >= 2 * stored:
            run = self._family.pair_run if w.dtype is DType.INT8 else 1
            decoded, zeros = weights.unpack_pairs(flat, native, shape, w.name, run)
            return StoredWeight(lambda: decoded, zero_point=zeros)
        first_layer = self._family.packed_first_layer and w.dtype is DType.INT8 and native[5] == 4
        if first_layer and flat.size > stored:
            return StoredWeight(partial(weights.unpack_first_layer, flat, native, shape, w.name))
        return StoredWeight(_standard(lambda: flat, w, shape, depthwise))

    def _expanded(self, table: Table, data: memoryview, x: Tensor, w: Tensor) -> Loader:
        """A compressed weight: its segments are checked now and decoded when they are needed."""
        from .compressed_weights import CompressedWeight

        elements = sum(prod(part) for part in weights.segments(w.native_shape, w.name))
        kind = x.dtype.numpy.newbyteorder("<")
        packed = CompressedWeight(
            name=w.name,
            data=data,
            size=elements * kind.itemsize,
            dtype=x.dtype,
            by_bytes=self._family.compressed_by_bytes,
            payloads=table.i32s(TensorSlot.PAYLOADS).tolist(),
            offsets=table.i32s(TensorSlot.OFFSETS).tolist(),
            headers=table.i32s(TensorSlot.HEADERS).tolist(),
        )
        packed.check()
        self._expansion.add(w.name, packed.size)
        return lambda: packed.decode().view(kind)

    def _nibbles(self, data: memoryview, w: Tensor, shape: Shape) -> StoredWeight:
        scales = self._storage.named(f"{w.name}_w4a16_weight")
        count = 0 if scales is None else len(scales) // 2
        if scales is None or count < shape[0]:
            raise ModelUnsupported(
                f"weight {w.name}: {count} scales for {shape[0]} channels of 4-bit weights; the converter writes "
                "unusable biases for quantized_method='layer': convert with quantized_method='channel'"
            )
        scale = np.frombuffer(scales, "<f2", shape[0]).astype(np.float32)
        load = _standard(partial(weights.unpack_nibbles, data), w, shape, depthwise=False)
        return StoredWeight(load, Form.NIBBLES, scale=scale)


def _flat(data: memoryview, tensor: Tensor) -> NDArray[Any]:
    kind = tensor.dtype.numpy.newbyteorder("<")
    return np.frombuffer(data, kind, len(data) // kind.itemsize)


def from_bfloat(stored: NDArray[Any]) -> NDArray[np.float32]:
    """bfloat16 bits (uint16) -> the same values as float32."""
    return (stored.astype(np.uint32) << 16).view(np.float32)


def _standard(flat: Loader, w: Tensor, shape: Shape, depthwise: bool) -> Loader:
    """The block order that the native dims describe."""

    def load() -> NDArray[Any]:
        elements = flat()
        if elements.dtype == np.uint16:
            elements = from_bfloat(elements)
        if not depthwise:
            return weights.unpack_blocks(elements, w.native_shape, shape, w.name)
        lanes = weights.unpack_blocks(elements, w.native_shape, (1, shape[0], *shape[2:]), w.name)
        stored: NDArray[Any] = lanes.transpose(1, 0, 2, 3)
        return stored

    return load
