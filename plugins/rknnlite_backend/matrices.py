"""Matrices of ``rknn_matmul_*`` between C and Python."""

from __future__ import annotations

from rknnlite.abi.rknn_op import MAX_DIMS
from rknnlite.errors import ParamInvalid, RknnError
from rknnlite.spi.matmul import MatmulShape, MatmulSpec, MatmulTensor
from rknnlite.tensor import DType

from .abi.rknn_matmul import Info, Tensor

__all__ = ["info_of", "matrix_of", "matrix_struct"]


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


def matrix_of(struct: Tensor, error: type[RknnError] = ParamInvalid) -> MatmulTensor:
    """What the other side says of a matrix; raises ``error`` for numbers that no version defines."""
    name = struct.name.decode("utf-8", "replace")
    if not 0 < struct.n_dims <= MAX_DIMS:
        raise error(f"matrix {name} is said to have rank {struct.n_dims}; there are 1 to {MAX_DIMS}")
    try:
        dtype = DType(struct.type)
    except ValueError:
        raise error(f"matrix {name} is said to have type {struct.type}, which is unknown") from None
    return MatmulTensor(name, tuple(struct.dims[: struct.n_dims]), dtype, struct.size)


def matrix_struct(tensor: MatmulTensor) -> Tensor:
    """The structure for a call, or an answer."""
    struct = Tensor(name=tensor.name.encode(), n_dims=len(tensor.dims), size=tensor.size, type=tensor.dtype)
    struct.dims[: len(tensor.dims)] = tensor.dims
    return struct
