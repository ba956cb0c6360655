"""Matrices of ``rknn_matmul_*`` between C and Python."""

from __future__ import annotations

from rknnlite.abi.rknn_matmul import STRUCTURES, Info, Io, QuantParams, Shape, Tensor
from rknnlite.errors import RknnError
from rknnlite.spi.matmul import MatmulShape, MatmulSpec, MatmulTensor
from rknnlite.tensor import DType

from .abi import MAX_DIMS

__all__ = [
    "STRUCTURES",
    "Info",
    "Io",
    "QuantParams",
    "Shape",
    "Tensor",
    "info_of",
    "tensor_from",
    "tensor_to",
]


def info_of(spec: MatmulSpec, shape: MatmulShape) -> Info:
    """What ``rknn_matmul_create`` is told."""
    return Info(
        M=shape.m,
        K=shape.k,
        N=shape.n,
        type=spec.type,
        B_layout=spec.b_layout,
        B_quant_type=spec.b_quant,
        AC_layout=int(spec.ac_native),
        iommu_domain_id=spec.iommu_domain,
        group_size=spec.group_size,
    )


def tensor_from(struct: Tensor) -> MatmulTensor:
    """Translate what the library answered; raises RknnError for numbers that no version defines."""
    name = struct.name.decode("utf-8", "replace")
    if not 0 < struct.n_dims <= MAX_DIMS:
        raise RknnError(f"the library answers rank {struct.n_dims} for matrix {name}")
    try:
        dtype = DType(struct.type)
    except ValueError:
        raise RknnError(f"the library answers an unknown type {struct.type} for matrix {name}") from None
    return MatmulTensor(name, tuple(struct.dims[: struct.n_dims]), dtype, struct.size)


def tensor_to(tensor: MatmulTensor) -> Tensor:
    """The structure for a call."""
    struct = Tensor(name=tensor.name.encode(), n_dims=len(tensor.dims), size=tensor.size, type=tensor.dtype)
    struct.dims[: len(tensor.dims)] = tensor.dims
    return struct
