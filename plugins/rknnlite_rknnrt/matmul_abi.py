"""Matrices of ``rknn_matmul_*`` between C and Python."""

from __future__ import annotations

from rknnlite.abi.rknn_matmul import STRUCTURES, Info, Io, QuantParams, Shape, Tensor
from rknnlite.capi import tensor_from, tensor_to
from rknnlite.spi.matmul import MatmulShape, MatmulSpec

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
