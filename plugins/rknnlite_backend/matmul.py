"""Rules of matrix products (RKNN user guide, section 3.5): limits of SoCs, and how A, B and C lie in memory."""

from __future__ import annotations

import numpy as np

from rknnlite.errors import ParamInvalid, TargetPlatformUnmatch
from rknnlite.socs import MatmulFacts, Soc
from rknnlite.spi import Memory
from rknnlite.spi.matmul import BLayout, MatmulShape, MatmulSpec, MatmulTensor, MatmulType
from rknnlite.tensor import DType

from .zero_copy import foreign_memory

__all__ = ["MATMUL_OPTIONS", "check_fits", "check_limits", "facts_of", "tensors_of"]

MATMUL_OPTIONS = frozenset({"library", "threads"})
"""Names of the options of our own backends, see ``MatmulSpec.extra``."""


def facts_of(soc: Soc, kind: MatmulType) -> MatmulFacts:
    """Layouts and limits of a SoC; raises TargetPlatformUnmatch where it cannot do that type."""
    if soc.matmul is None:
        raise TargetPlatformUnmatch(
            f"{soc.name}: the matmul API does not exist there, or no document tells its layouts; use an RK3588, "
            "RK3576, RK3566, RK3568 or RK3562"
        )
    missing = [dtype.name for dtype in kind.dtypes[:2] if dtype not in soc.matmul.operands]
    if missing:
        raise TargetPlatformUnmatch(f"{soc.name} multiplies no {missing[0]} matrices; choose another type")
    return soc.matmul


def check_limits(soc: Soc, kind: MatmulType, shape: MatmulShape) -> None:
    """Raise ParamInvalid naming the limit of the SoC that a shape breaks."""
    operands = facts_of(soc, kind).operands
    for dtype in dict.fromkeys(kind.dtypes[:2]):
        facts = operands[dtype]
        for name, value, align, most in (
            ("K", shape.k, facts.k_align, facts.k_max),
            ("N", shape.n, facts.n_align, facts.n_max),
        ):
            if value % align or (most and value > most):
                limit = f" and at most {most}" if most else ""
                raise ParamInvalid(
                    f"{name}={value} is outside the limits of {soc.name} for {dtype.name}: a multiple of {align}{limit}; "
                    "pad the matrices with zeros, or cut them"
                )


def tensors_of(
    spec: MatmulSpec, soc: Soc, shape: MatmulShape
) -> tuple[MatmulTensor, MatmulTensor, MatmulTensor]:
    """A, B and C for a shape as the runtime reports them (table 3-5)."""
    facts = facts_of(soc, spec.type)
    a, b, c = spec.type.dtypes
    m, k, n = shape
    a_dims: tuple[int, ...] = (m, k)
    c_dims: tuple[int, ...] = (m, n)
    if spec.ac_native:
        lanes = facts.operands[a].a
        a_dims = (_ceil(k, lanes), m, lanes)
        lanes = _c_lanes(facts, c)
        c_dims = (_ceil(n, lanes), m, lanes)
    b_dims: tuple[int, ...] = (n, k) if spec.b_layout is BLayout.TRANSPOSED else (k, n)
    if spec.b_layout is BLayout.NATIVE:
        tile_n, tile_k = facts.operands[b].b
        b_dims = (_ceil(n, tile_n), _ceil(k, tile_k), tile_n, tile_k)
    return _tensor("A", a_dims, a), _tensor("B", b_dims, b), _tensor("C", c_dims, c)


def _c_lanes(facts: MatmulFacts, dtype: DType) -> int:
    """Lanes of C: those that the table gives; in a type that A can have A's, so that C may be the next A."""
    if dtype in (DType.INT32, DType.FLOAT32):
        return 4
    if dtype in facts.operands:
        return facts.operands[dtype].a
    return 8 if dtype is DType.INT16 else facts.operands[DType.FLOAT16].a


def _ceil(value: int, step: int) -> int:
    return -(-value // step)


def _tensor(name: str, dims: tuple[int, ...], dtype: DType) -> MatmulTensor:
    return MatmulTensor(name, dims, dtype, (int(np.prod(dims, dtype=np.int64)) * dtype.bits + 7) // 8)


def check_fits(tensor: MatmulTensor, mem: Memory, known: bool) -> None:
    """Raise ParamInvalid when memory is not ``known`` to the context or too small for A, B or C."""
    if not known:
        raise foreign_memory()
    if mem.size < tensor.size:
        raise ParamInvalid(
            f"{tensor.name}: the memory has {mem.size} bytes, {tensor.size} are needed "
            f"({tensor.dtype.name} {list(tensor.dims)})"
        )
