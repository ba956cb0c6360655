"""Matrix products on the NPU or on the CPU reference.

>>> multiply = rknnlite.Matmul(4, 64, 32)                           # doctest: +SKIP
>>> c = multiply(a, b)          # int8 [4, 64] x int8 [64, 32] -> int32 [4, 32]
>>> c = multiply(a)             # B as it was
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional, Union

import numpy as np
from numpy.typing import NDArray

from .. import socs
from ..choosing import choose_matmul_backend
from ..errors import ContextInvalid, InputInvalid, ParamInvalid
from ..spi.arguments import Typed
from ..spi.matmul import BLayout, BQuant, MatmulContext, MatmulShape, MatmulSpec, MatmulTensor, MatmulType
from ..spi.types import Memory, Options
from ..tensor import DType
from .layout import bfloat16_to_float, from_bytes, pack_b, pack_lanes, to_bytes, unpack_lanes

__all__ = ["Matmul"]

Array = NDArray[Any]
Numbers = Union[float, Sequence[float], Array]
_QUANTS = {"layer": BQuant.LAYER, "channel": BQuant.CHANNEL, "group": BQuant.GROUP}
_B_LAYOUTS = {"normal": BLayout.NORMAL, "native": BLayout.NATIVE, "transposed": BLayout.TRANSPOSED}


class Matmul(Typed):
    """C[M,N] = A[M,K] x B[K,N], as ``rknn_matmul_*`` of librknnrt computes it (RKNN user guide, 3.5).

    Args:
        M, K, N: sizes. Limits depend on the SoC and the type; an error names them.
        type: element types of A, B and C: ``"int8_int8_int32"``, ``"float16_float16_float32"``,
            ``"float16_int4_float16"``, ...; see ``MatmulType``.
        soc: SoC to play on the CPU reference; None: this board's, else rk3588.
        backend: ``"cpu"``, ``"rknnrt"``; None chooses as ``rknnlite.open`` does.
        shapes: several (M, K, N) to switch between with ``set_shape``, instead of one.
        b_layout: how B lies in memory: ``"normal"`` [K, N], ``"native"`` (the NPU's tiles: fastest on the board),
            ``"transposed"`` [N, K].
        ac_layout: the same for A and C: ``"normal"`` or ``"native"``.
        b_quant: what scales of B count for: ``"layer"``, ``"channel"``, ``"group"``; ``asymmetric`` with zero points.
        group_size: rows of B per scale, a multiple of 32.
        core_mask, iommu_domain: NPU cores; which 4 GB of addresses on the NPU.
        threads: of the CPU reference, None: as many as there are cores.
        library: path of the runtime library to use, as for ``rknnlite.open``; None finds it.
        options: further ones of the backend; one that it does not know is refused.

    Calling the object takes and gives arrays in normal layout whatever the layouts in memory are. Elements of type
    int4 are int8 arrays of -8..7; bfloat16 results come as float32.

    Raises:
        ParamInvalid: sizes outside the limits, an unknown type.
        TargetPlatformUnmatch: the SoC cannot do that type.

    Examples:
        >>> a, b = np.ones((4, 64), np.int8), np.full((64, 32), 2, np.int8)
        >>> with rknnlite.Matmul(4, 64, 32) as multiply:
        ...     c = multiply(a, b)
        >>> c.shape, c.dtype.name, int(c[0, 0])
        ((4, 32), 'int32', 128)
    """

    def __init__(
        self,
        M: Optional[int] = None,
        K: Optional[int] = None,
        N: Optional[int] = None,
        type: MatmulType | str | int = MatmulType.INT8_INT8_INT32,
        soc: Optional[str] = None,
        backend: Optional[str] = None,
        *,
        shapes: Optional[Sequence[tuple[int, int, int]]] = None,
        b_layout: str = "normal",
        ac_layout: str = "normal",
        b_quant: str = "layer",
        asymmetric: bool = False,
        group_size: int = 0,
        core_mask: Optional[int] = None,
        iommu_domain: int = 0,
        threads: Optional[int] = None,
        library: Optional[str] = None,
        **options: Any,
    ) -> None:
        if ac_layout not in ("normal", "native"):
            raise ParamInvalid(f"ac_layout {ac_layout!r} is not 'normal' or 'native'")
        extra = {"threads": threads, "library": library, **options}
        quant = BQuant(_word(_QUANTS, b_quant, "b_quant") + int(bool(asymmetric)))
        spec = MatmulSpec(
            shapes=_shapes((M, K, N), shapes),
            type=MatmulType.of(type),
            soc=socs.get(soc) if soc else None,
            b_layout=BLayout(_word(_B_LAYOUTS, b_layout, "b_layout")),
            ac_native=ac_layout == "native",
            b_quant=quant,
            group_size=group_size,
            core_mask=core_mask,
            iommu_domain=iommu_domain,
            dynamic=shapes is not None,
            extra={name: value for name, value in extra.items() if value is not None},
        )
        spec.check()
        wanted = Options(core_mask=core_mask, soc=soc, extra=spec.extra)
        self._context = choose_matmul_backend(backend, wanted).matmul(spec)
        self._own: dict[str, Memory] = {}
        self._has_b = False

    # -- what it is ---------------------------------------------------------------------------------------

    @property
    def context(self) -> MatmulContext:
        """The context of the backend."""
        return self._context

    @property
    def type(self) -> MatmulType:
        """Element types."""
        return self._context.spec.type

    @property
    def shape(self) -> MatmulShape:
        """Current M, K and N."""
        return self._context.shape

    @property
    def A(self) -> MatmulTensor:
        """A as memory."""
        return self._context.tensors[0]

    @property
    def B(self) -> MatmulTensor:
        """B as memory."""
        return self._context.tensors[1]

    @property
    def C(self) -> MatmulTensor:
        """C as memory."""
        return self._context.tensors[2]

    # -- the simple way -----------------------------------------------------------------------------------

    def __call__(self, a: Array, b: Optional[Array] = None) -> Array:
        """Multiply arrays; without ``b`` with the B of the last call.

        Raises:
            InputInvalid: shapes, element types or values do not fit.
        """
        with self._context.exclusive():
            self._put(self.A, self._packed_a(a))
            if b is not None:
                self._put(self.B, self._packed_b(b))
                self._has_b = True
            elif not self._has_b:
                raise ContextInvalid("there is no B yet: call with a and b once")
            mem = self._memory(self.C)
            self._context.bind(self.C, mem)
            self._context.run()
            return self._result(mem)

    def _put(self, tensor: MatmulTensor, elements: Array) -> None:
        mem = self._memory(tensor)
        data = to_bytes(elements, tensor.dtype)
        mem.ndarray[: data.size] = data
        self._context.bind(tensor, mem)

    def _memory(self, tensor: MatmulTensor) -> Memory:
        mem = self._own.get(tensor.name)
        if mem is None or mem.size < tensor.size:
            if mem is not None:
                mem.close()
            mem = self._own[tensor.name] = self._context.create_mem(tensor.size)
        return mem

    def _packed_a(self, a: Array) -> Array:
        matrix = _checked("A", a, (self.shape.m, self.shape.k), self.A.dtype)
        return pack_lanes(matrix, self.A.dims[-1]) if self._context.spec.ac_native else matrix

    def _packed_b(self, b: Array) -> Array:
        """[K, N] elements as the memory of B wants them."""
        matrix = _checked("B", b, (self.shape.k, self.shape.n), self.B.dtype)
        layout = self._context.spec.b_layout
        if layout is BLayout.NORMAL:
            return matrix
        if layout is BLayout.TRANSPOSED:
            return np.ascontiguousarray(matrix.T)
        facts = self._context.soc.matmul
        tile_n, tile_k = self.B.dims[2:]
        return pack_b(matrix, (tile_n, tile_k), facts.segment if facts is not None else 0)

    def _result(self, mem: Memory) -> Array:
        found = from_bytes(mem.ndarray, self.C.dtype, self.C.dims)
        matrix = unpack_lanes(found, self.shape.n) if self._context.spec.ac_native else found.copy()
        return bfloat16_to_float(matrix) if self.C.dtype is DType.BFLOAT16 else matrix

    # -- settings -----------------------------------------------------------------------------------------

    def set_shape(self, m: int, k: int, n: int) -> None:
        """Choose one of the ``shapes``; a call has to be given B anew.

        Memory of the caller stays bound where it is large enough: a matrix whose sizes change is read again here,
        one whose sizes stay (B, where M alone changes) is left as it was when it was bound.
        """
        shape = MatmulShape(m, k, n)
        legal = self._context.spec.shapes
        if shape not in legal:
            listed = ", ".join(str(tuple(entry)) for entry in legal)
            raise ParamInvalid(f"shape {tuple(shape)} is not among those of this matmul: {listed}")
        self._context.set_shape(shape)
        self._has_b = False

    def set_core_mask(self, mask: int) -> None:
        """Choose NPU cores (RK3588, RK3576)."""
        self._context.set_core_mask(mask)

    def set_quant(self, name: str, scale: Numbers, zero_point: Union[int, Sequence[int], Array] = 0) -> None:
        """Quantisation parameters of ``"A"``, ``"B"`` or ``"C"``: real = (q - zero_point) * scale; default 1 and 0.

        A and C take one; B one, one per column (``b_quant="channel"``), or one per group and column, [K / group, N].

        Raises:
            ParamInvalid: number or values do not fit.
        """
        scales = np.asarray(scale, np.float32).reshape(-1)
        zeros = np.asarray(zero_point).reshape(-1)
        spec = self._context.spec
        most = spec.scales_of_b(self.shape) if name == "B" else 1
        if name not in ("A", "B", "C"):
            raise ParamInvalid(f"there is no matrix {name!r}; there are A, B and C")
        if scales.size not in (1, most) or zeros.size not in (1, scales.size):
            raise ParamInvalid(
                f"{name} takes {' or '.join(map(str, sorted({1, most})))} scales and as many zero points (or one), "
                f"got {scales.size} and {zeros.size}"
            )
        if not (np.isfinite(scales).all() and (scales > 0).all()):
            raise ParamInvalid(f"scales of {name} must be finite and above 0")
        if name == "B" and spec.b_quant.symmetric and spec.b_quant is not BQuant.LAYER and zeros.any():
            raise ParamInvalid(
                "this B is symmetric, its zero points are 0; make the matmul with asymmetric=True"
            )
        whole = np.broadcast_to(zeros.astype(np.int64), scales.shape)
        self._context.set_quant(name, scales.tolist(), whole.tolist())

    def b_scale(self) -> float:
        """See ``MatmulContext.b_scale``; for int8_int8_int32 with ``b_quant="channel"``."""
        return self._context.b_scale()

    # -- memory of the caller -----------------------------------------------------------------------------

    def create_mem(self, size: int) -> Memory:
        """Allocate a buffer that ``bind`` accepts."""
        return self._context.create_mem(size)

    def import_mem(self, fd: int, size: int, offset: int = 0) -> Memory:
        """Wrap a file descriptor, which stays the caller's."""
        return self._context.import_mem(fd, size, offset)

    def bind(self, tensor: MatmulTensor, mem: Memory) -> None:
        """Use ``mem`` for ``A``, ``B`` or ``C``. The runtime may repack: bind A and B again after every refill."""
        self._context.bind(tensor, mem)

    def run(self) -> None:
        """Multiply what is bound; C is in its memory afterwards."""
        self._context.run()

    # -- life ---------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Release everything; may be called again."""
        self._own.clear()
        self._context.close()

    def __enter__(self) -> Matmul:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        m, k, n = self.shape
        return f"<Matmul [{m}, {k}] x [{k}, {n}] {self.type.name.lower()} on {self._context.backend_name}>"


def _word(table: dict[str, Any], given: str, what: str) -> int:
    if given not in table:
        raise ParamInvalid(f"{what} {given!r} is not one of {', '.join(table)}")
    return int(table[given])


def _shapes(
    one: tuple[Optional[int], Optional[int], Optional[int]], several: Optional[Sequence[tuple[int, int, int]]]
) -> tuple[MatmulShape, ...]:
    given = [size for size in one if size is not None]
    if several is not None and not given:
        return tuple(MatmulShape(*(int(size) for size in shape)) for shape in several)
    if several is not None or len(given) != 3:
        raise ParamInvalid("give M, K and N, or shapes=[(M, K, N), ...]")
    return (MatmulShape(*(int(size) for size in given)),)


def _checked(name: str, given: Array, shape: tuple[int, int], dtype: DType) -> Array:
    """A contiguous array of the element type; raises InputInvalid when it is another, or has other values."""
    array = np.asarray(given)
    if array.shape != shape:
        raise InputInvalid(f"{name} has shape {list(array.shape)}, {list(shape)} is needed")
    wanted = dtype.numpy
    if dtype is DType.FLOAT16 and array.dtype.kind == "f":
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(array, np.float16)
    if array.dtype != wanted:
        raise InputInvalid(f"{name} has element type {array.dtype}, {wanted} is needed for {dtype.name}")
    if dtype is DType.INT4 and array.size and (array.min() < -8 or array.max() > 7):
        raise InputInvalid(f"{name} is int4: values must be -8..7, got {array.min()}..{array.max()}")
    return np.ascontiguousarray(array)
