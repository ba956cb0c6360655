"""Matrix products on the CPU reference: integers exactly, floats as float32 products.

A float32 product of integers is exact while no partial sum passes 2**24, so K is cut into blocks that cannot; the
blocks are added as integers. Where the result is quantised it is scaled in float64 and rounded to nearest even.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
from rknnlite_backend.host_memory import HostMemory
from rknnlite_backend.matmul import check_fits, check_limits, facts_of, tensors_of

from rknnlite import socs
from rknnlite.errors import ContextInvalid, OutputInvalid, ParamInvalid
from rknnlite.matmul.layout import float_to_bfloat16, from_bytes, pack_lanes, to_bytes, unpack_b, unpack_lanes
from rknnlite.spi import Memory
from rknnlite.spi.matmul import (
    BLayout,
    BQuant,
    MatmulContext,
    MatmulShape,
    MatmulSpec,
    MatmulTensor,
)
from rknnlite.tensor import DType

from .kernels.gemm import cast, in_blocks, row_sums
from .kernels.parallel import matmul
from .kernels.threads import cores, limited
from .values import Array

__all__ = ["CpuMatmul"]

_EXACT = 1 << 24
_RANGES = {
    DType.INT4: (-8, 7),
    DType.INT8: (-128, 127),
    DType.INT16: (-(2**15), 2**15 - 1),
    DType.INT32: (-(2**31), 2**31 - 1),
}


class _Quant:
    """Scales and zero points of one matrix; programs of the C API give no zero points (length 0) where all are 0."""

    def __init__(self, scale: Sequence[float] = (1.0,), zero_point: Sequence[int] = (0,)) -> None:
        self.scale = np.asarray(scale, np.float64)
        self.zero = np.asarray(zero_point if len(zero_point) else (0,), np.int64)

    def cut(self, count: int) -> _Quant:
        """The first ``count``."""
        return _Quant(self.scale[:count], self.zero[:count])

    def reach(self, dtype: DType) -> float:
        """The largest magnitude that q - zero_point can have."""
        low, high = _RANGES[dtype]
        return float(max(abs(low - int(self.zero.max())), abs(high - int(self.zero.min()))))


class CpuMatmul(MatmulContext):
    """See ``rknnlite.spi.matmul.MatmulContext``."""

    def __init__(self, spec: MatmulSpec) -> None:
        soc = spec.soc or socs.detect() or socs.get("rk3588")
        super().__init__(spec, soc)
        self._facts = facts_of(soc, spec.type)
        for shape in spec.shapes:
            check_limits(soc, spec.type, shape)
        if spec.core_mask:
            soc.check_core_mask(spec.core_mask)
        self._threads = min(cores(), spec.extra.get("threads") or cores())
        self._tensors = tensors_of(spec, soc, self.shape)
        self._quant = {name: _Quant() for name in "ABC"}
        self._quant_of_b = self._quant["B"]  # as it was given, for whichever shape
        self._memories: weakref.WeakSet[HostMemory] = weakref.WeakSet()
        self._values: dict[str, Array] = {}
        self._stored: dict[str, Array] = {}

    @property
    def backend_name(self) -> str:
        return "cpu"

    @property
    def tensors(self) -> tuple[MatmulTensor, MatmulTensor, MatmulTensor]:
        return self._tensors

    # -- settings -----------------------------------------------------------------------------------------

    def set_shape(self, shape: MatmulShape) -> None:
        with self.exclusive():
            before, self._tensors = self._tensors, tensors_of(self.spec, self.soc, shape)
            self.shape = shape
            changed = [new.name for old, new in zip(before, self._tensors) if new != old]
            for name in changed:
                self._stored.pop(name, None)
                self._values.pop(name, None)
                if name in self._bound and self._bound[name].closed:
                    del self._bound[name]
            self._bind_again(before)

    def set_core_mask(self, mask: int) -> None:
        with self.exclusive():
            self.soc.check_core_mask(mask)

    def set_quant(self, name: str, scale: Sequence[float], zero_point: Sequence[int]) -> None:
        with self.exclusive():
            dtype = self._tensors["ABC".index(name)].dtype
            if dtype not in _RANGES:
                raise ParamInvalid(f"{name} is {dtype.name}: it has no scale and no zero point")
            low, high = _RANGES[dtype]
            if any(not low <= zero <= high for zero in zero_point):
                raise ParamInvalid(f"zero points of {name} must be {low}..{high}")
            self._quant[name] = _Quant(scale, zero_point)
            if name == "B":
                self._quant_of_b = self._quant[name]
            self._values.clear()  # made anew from what was bound

    def b_scale(self) -> float:
        with self.exclusive():
            return float((self._fitting() or self._quant_of_b).scale.max())

    # -- memory -------------------------------------------------------------------------------------------

    def create_mem(self, size: int) -> HostMemory:
        with self.exclusive():
            return self._own(HostMemory.allocate(size, 0))

    def import_mem(self, handle: int, size: int, offset: int = 0) -> HostMemory:
        with self.exclusive():
            return self._own(HostMemory.from_fd(handle, size, offset))

    def _own(self, mem: HostMemory) -> HostMemory:
        self._memories.add(mem)
        return mem

    def bind(self, tensor: MatmulTensor, mem: Memory) -> None:
        with self.exclusive():
            if tensor not in self._tensors:
                raise ParamInvalid(f"{tensor} is none of the tensors of this matmul: {self._tensors}")
            check_fits(tensor, mem, isinstance(mem, HostMemory) and mem in self._memories)
            assert isinstance(mem, HostMemory)
            if mem.offset % max(1, tensor.dtype.bits // 8):
                raise ParamInvalid(
                    f"{tensor.name}: the memory begins at offset {mem.offset}, no multiple of its elements"
                )
            data = mem.ndarray
            self._bound[tensor.name] = mem
            if tensor.name == "C":
                return
            # Like the runtime, which repacks here: what is written into the memory later is not seen.
            self._stored[tensor.name] = self._normal(tensor, from_bytes(data, tensor.dtype, tensor.dims))
            self._values.pop(tensor.name, None)

    def _normal(self, tensor: MatmulTensor, elements: Array) -> Array:
        """A copy in normal layout: [M, K] or [K, N]."""
        _, k, n = self.shape
        if tensor.name == "A":
            return unpack_lanes(elements, k) if self.spec.ac_native else elements.copy()
        if self.spec.b_layout is BLayout.NATIVE:
            tile_n, tile_k = tensor.dims[2:]
            return unpack_b(elements, (k, n), (tile_n, tile_k), self._facts.segment)
        return np.array(elements.T if self.spec.b_layout is BLayout.TRANSPOSED else elements, order="C")

    # -- computing ----------------------------------------------------------------------------------------

    def run(self) -> None:
        with self.exclusive(), limited(self._threads):
            self._check_bound()
            self._check_quant()
            out = self._bound["C"]
            if out.closed:
                raise OutputInvalid("the memory bound to C is closed; bind another one")
            a, b, c = self.spec.type.dtypes
            left, right = self._value("A", a), self._value("B", b)
            whole = a not in (DType.FLOAT16,)
            result = self._integers(left, right) if whole else _product(left, right)
            elements = self._finished(result, c)
            if self.spec.ac_native:
                elements = pack_lanes(elements, self._tensors[2].dims[-1])
            data = to_bytes(elements, c)
            out.ndarray[: data.size] = data

    def _check_quant(self) -> None:
        fitting = self._fitting()
        if fitting is None:
            count, need = self._quant_of_b.scale.size, self.spec.scales_of_b(self.shape)
            raise ContextInvalid(
                f"B has {count} scales, shape {tuple(self.shape)} needs {need}: set them after the shape"
            )
        self._quant["B"] = fitting

    def _fitting(self) -> Optional[_Quant]:
        """Scales of B for the shape in use: programs set them once, for the largest K and N of all shapes.

        Then the first columns count. Groups of rows do not tell how they lie where N is smaller, so they must be alike.
        """
        given, need = self._quant_of_b, self.spec.scales_of_b(self.shape)
        if given.scale.size in (1, need):
            return given
        largest = MatmulShape(*(max(numbers) for numbers in zip(*self.spec.shapes)))
        if given.scale.size != self.spec.scales_of_b(largest):
            return None
        if self.spec.b_quant.per_channel:
            return given.cut(need)
        alike = (given.scale == given.scale[0]).all() and (given.zero == given.zero[0]).all()
        return given.cut(need) if alike else None

    def _value(self, name: str, dtype: DType) -> Array:
        """float32: centred integers, or real numbers where the other matrix is float; kept until bound anew."""
        found = self._values.get(name)
        if found is None:
            quant = self._quant[name]
            found = cast(self._stored[name], np.float32)
            if dtype is not DType.FLOAT16:
                mixed = self.spec.type.dtypes[0] is DType.FLOAT16
                found = self._centred(found, quant, name, scaled=mixed)
            self._values[name] = found
        return found

    def _centred(self, values: Array, quant: _Quant, name: str, scaled: bool) -> Array:
        if quant.zero.any():
            values -= self._spread(quant.zero, name).astype(np.float32)
        if scaled and (quant.scale != 1).any():
            values *= self._spread(quant.scale, name).astype(np.float32)
        return values

    def _spread(self, numbers: Array, name: str) -> Array:
        """One number, one per column, or one per group and column, against the matrix."""
        if numbers.size == 1 or name != "B":
            return numbers
        if self.spec.b_quant.per_group:
            return np.repeat(numbers.reshape(-1, self.shape.n), self.spec.group_size, axis=0)
        return numbers

    def _integers(self, left: Array, right: Array) -> Array:
        """The exact product of centred integers: int64 where it may pass 2**31, else int32; groups scaled."""
        quant_a, quant_b = self._quant["A"], self._quant["B"]
        a, b, _ = self.spec.type.dtypes
        depth = self.shape.k
        most = quant_a.reach(a) * quant_b.reach(b)
        step = max(1, int(_EXACT // most))
        if self.spec.b_quant.per_group and quant_b.scale.size > 1:
            return self._grouped(left, right, step)
        kind: Any = np.int32 if most * depth < 2**31 else np.int64
        if len(left) == 1:
            return cast(row_sums(left, right, step), kind).sum(axis=0, dtype=kind, keepdims=True)
        total: Optional[Array] = None
        for start in range(0, depth, step):
            part = matmul(left[:, start : start + step], right[start : start + step])
            total = cast(part, kind) if total is None else in_blocks(_add, part, total)
        assert total is not None
        return total

    def _grouped(self, left: Array, right: Array, step: int) -> Array:
        """Every group of rows has scales of its own: float64 sums of exact products."""
        size, scales = self.spec.group_size, self._quant["B"].scale.reshape(-1, self.shape.n)
        total = np.zeros((self.shape.m, self.shape.n))
        for group, first in enumerate(range(0, self.shape.k, size)):
            for start in range(first, first + size, step):
                stop = min(start + step, first + size)
                total += matmul(left[:, start:stop], right[start:stop]) * scales[group]
        return total

    def _finished(self, result: Array, dtype: DType) -> Array:
        """Products -> elements of C."""
        if result.dtype == np.float32 and dtype in (DType.FLOAT32, DType.FLOAT16):
            return cast(result, dtype.numpy)
        if result.dtype == dtype.numpy and self._columns_alike():
            return result

        def convert(rows: Array, out: Array) -> None:
            with np.errstate(over="ignore"):
                out[...] = self._elements(rows, dtype)

        return in_blocks(convert, result, np.empty(result.shape, dtype.numpy))

    def _elements(self, result: Array, dtype: DType) -> Array:
        if result.dtype != np.float32:
            result = self._scaled(result, dtype)
        if dtype is DType.BFLOAT16:
            return float_to_bfloat16(result)
        if dtype.is_float:
            return result
        low, high = _RANGES[dtype]
        if result.dtype.kind == "f":
            result = np.rint(result)
        elif result.dtype == dtype.numpy:
            return result
        return np.clip(result, low, high)

    def _scaled(self, result: Array, dtype: DType) -> Array:
        """Integer products in the unit of C: untouched for wide integers, unless the columns of B have scales."""
        a, b, c = (self._quant[name] for name in "ABC")
        columns = b.scale if result.dtype.kind == "i" else np.ones(1)  # groups carry theirs already
        if dtype in (DType.INT32, DType.INT16):
            return result if self._columns_alike() else result * (columns / columns.max())
        factor = a.scale * columns
        if dtype.is_float:
            return result * factor if (factor != 1).any() else result.astype(np.float64)
        scaled: Array = result * (factor / c.scale)
        return np.rint(scaled) + c.zero

    def _columns_alike(self) -> bool:
        """Whether wide integers need no scale: B has one for all, or one per column and all the same."""
        scale = self._quant["B"].scale
        return self.spec.b_quant is BQuant.LAYER or bool((scale == scale.max()).all())

    def _release(self) -> None:
        self._values.clear()
        self._stored.clear()
        self._bound.clear()
        for mem in list(self._memories):
            mem.close()


def _add(part: Array, total: Array) -> None:
    np.add(total, part, out=total, casting="unsafe", dtype=total.dtype)


def _product(left: Array, right: Array) -> Array:
    """float32 [M, N]."""
    if len(left) > 1:
        return matmul(left, right)
    return row_sums(left, right).sum(axis=0, keepdims=True)
