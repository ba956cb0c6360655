"""Tensor attributes and configurations of the core as the structures of the C ABI."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..abi.rknn3_enums import RKNN3_MAX_DIMS, RKNN3_MAX_NAME_LEN, RKNN3TensorLayout, RKNN3TensorQntType
from ..abi.rknn3_types import RKNN3TensorAttr
from ..abi.rknn3_v104 import RKNN3TensorType
from ..errors import ModelUnsupported
from ..tensor import Layout, TensorAttr

if TYPE_CHECKING:
    from ..spi.llm import LlmConfig

__all__ = ["config_numbers", "tensor_attr", "tensor_attrs"]

_LAYOUTS = {
    Layout.UNDEFINED: RKNN3TensorLayout.RKNN3_TENSOR_UNDEFINED,
    Layout.NCHW: RKNN3TensorLayout.RKNN3_TENSOR_NCHW,
    Layout.NHWC: RKNN3TensorLayout.RKNN3_TENSOR_NHWC,
    Layout.NC1HWC2: RKNN3TensorLayout.RKNN3_TENSOR_NC1HWC2,
}


def tensor_attrs(attrs: Sequence[TensorAttr], native: Sequence[TensorAttr] = ()) -> list[RKNN3TensorAttr]:
    """One structure per attribute; ``native`` are those of the buffers, whose padding counts."""
    buffers = native or attrs
    return [tensor_attr(attr, buffer) for attr, buffer in zip(attrs, buffers)]


def tensor_attr(attr: TensorAttr, buffer: TensorAttr | None = None) -> RKNN3TensorAttr:
    """The structure for an attribute; strides are bytes, ``aligned_size`` is what the buffer takes."""
    if len(attr.dims) > RKNN3_MAX_DIMS:
        raise ModelUnsupported(f"tensor {attr.name} has {len(attr.dims)} dimensions, the C API knows 16")
    buffer = buffer or attr
    result = RKNN3TensorAttr(
        index=attr.index,
        name=attr.name.encode()[: RKNN3_MAX_NAME_LEN - 1],
        n_dims=len(attr.dims),
        aligned_size=max(buffer.size_with_stride, buffer.size),
        n_stride=len(attr.dims),
        n_elems=attr.n_elems,
        dtype=RKNN3TensorType[f"RKNN3_TENSOR_{attr.dtype.name}"],
        layout=_LAYOUTS[attr.layout],
        qnt_type=RKNN3TensorQntType.RKNN3_TENSOR_PER_LAYER_ASYMMETRIC if attr.quant else 0,
    )
    result.qnt_info.scale = attr.quant.scale if attr.quant else 1.0
    result.qnt_info.zero_point = attr.quant.zero_point if attr.quant else 0
    stride = attr.dtype.bits
    for i, dim in reversed(list(enumerate(attr.dims))):
        result.shape[i] = dim
        result.stride[i] = stride // 8
        stride *= dim
    return result


def config_numbers(config: LlmConfig) -> dict[str, int]:
    """The fields of ``RKNN3LLMConfig`` that are numbers."""
    return {
        "vocab_size": config.vocab_size,
        "embedding_dim": config.embedding_dim,
        "max_ctx_len": config.max_ctx_len,
        "max_position_embeddings": config.max_position_embeddings,
        "kvcache_store_method": int(config.kvcache_store_method),
        "kvcache_dtype": int(config.kvcache_dtype),
        "kvcache_group_size": config.kvcache_group_size,
        "kvcache_residual_depth": config.kvcache_residual_depth,
        "task_type": int(config.task_type),
    }
