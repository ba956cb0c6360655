"""Matrix products C[M,N] = A[M,K] x B[K,N]: what is asked for, and what a backend offers (user guide, 3.5)."""

from __future__ import annotations

import abc
import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Optional

from numpy.typing import NDArray

from ..errors import ContextInvalid, ParamInvalid
from ..native.forks import made_before_fork
from ..socs import Soc
from ..tensor import DType
from .exclusive import OneCaller
from .types import Memory

__all__ = [
    "BLayout",
    "BQuant",
    "MatmulContext",
    "MatmulShape",
    "MatmulSpec",
    "MatmulTensor",
    "MatmulType",
]

Array = NDArray[Any]
_GROUP = 32  # a group of weights with one scale is a multiple of this


class MatmulType(enum.IntEnum):
    """Element types of A, B and C, numbered as ``rknn_matmul_type``."""

    FLOAT16_FLOAT16_FLOAT32 = 1
    INT8_INT8_INT32 = 2
    INT8_INT8_INT8 = 3
    FLOAT16_FLOAT16_FLOAT16 = 4
    FLOAT16_INT8_FLOAT32 = 5
    FLOAT16_INT8_FLOAT16 = 6
    FLOAT16_INT4_FLOAT32 = 7
    FLOAT16_INT4_FLOAT16 = 8
    INT8_INT8_FLOAT32 = 9
    INT4_INT4_INT16 = 10
    INT8_INT4_INT32 = 11
    FLOAT16_INT4_BFLOAT16 = 12
    INT8_INT4_FLOAT16 = 15

    @property
    def dtypes(self) -> tuple[DType, DType, DType]:
        """Element types of A, B and C."""
        a, b, c = (DType[word] for word in self.name.split("_"))
        return a, b, c

    @classmethod
    def of(cls, given: MatmulType | str | int) -> MatmulType:
        """From a name such as ``"int8_int8_int32"`` or a number of the C API; raises ParamInvalid."""
        try:
            return cls[given.upper()] if isinstance(given, str) else cls(given)
        except (KeyError, ValueError):
            names = ", ".join(kind.name.lower() for kind in cls)
            raise ParamInvalid(f"matmul type {given!r} does not exist; there are {names}") from None


class BLayout(enum.IntEnum):
    """How B lies: [K, N], the NPU's own tiles, or [N, K]."""

    NORMAL = 0
    NATIVE = 1
    TRANSPOSED = 2


class BQuant(enum.IntEnum):
    """What the scales of B count for; the symmetric kinds have no zero points."""

    LAYER = 0
    LAYER_ASYM = 1
    CHANNEL = 2
    CHANNEL_ASYM = 3
    GROUP = 4
    GROUP_ASYM = 5

    @property
    def symmetric(self) -> bool:
        """Whether zero points must be 0."""
        return self.value % 2 == 0

    @property
    def per_channel(self) -> bool:
        """One scale per column of B."""
        return self in (BQuant.CHANNEL, BQuant.CHANNEL_ASYM)

    @property
    def per_group(self) -> bool:
        """One scale per column and ``group_size`` rows of B."""
        return self in (BQuant.GROUP, BQuant.GROUP_ASYM)


class MatmulShape(NamedTuple):
    """Sizes of one product."""

    m: int
    k: int
    n: int


@dataclass(frozen=True)
class MatmulTensor:
    """A, B or C as memory: ``dims`` follow the layout; ``size`` is bytes (two int4 elements in one)."""

    name: str
    dims: tuple[int, ...]
    dtype: DType
    size: int


@dataclass(frozen=True)
class MatmulSpec:
    """What is asked for: one shape, or several to switch between (``dynamic``)."""

    shapes: tuple[MatmulShape, ...]
    type: MatmulType
    soc: Optional[Soc] = None
    b_layout: BLayout = BLayout.NORMAL
    ac_native: bool = False
    b_quant: BQuant = BQuant.LAYER
    group_size: int = 0
    core_mask: Optional[int] = None
    iommu_domain: int = 0
    dynamic: bool = False
    extra: dict[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        """Raise ParamInvalid for what makes no sense on any SoC."""
        for shape in self.shapes:
            if min(shape) < 1:
                raise ParamInvalid(f"M, K and N must be at least 1, got {tuple(shape)}")
        if not self.shapes:
            raise ParamInvalid("a matmul needs at least one shape (M, K, N)")
        if self.iommu_domain < 0:
            raise ParamInvalid(f"iommu domain {self.iommu_domain} is negative")
        if self.b_quant.per_group:
            bad = [shape.k for shape in self.shapes if self.group_size < 1 or shape.k % self.group_size]
            if bad or self.group_size % _GROUP:
                raise ParamInvalid(
                    f"group_size {self.group_size} must be a multiple of {_GROUP} that divides every K "
                    f"({', '.join(str(shape.k) for shape in self.shapes)})"
                )
        elif self.group_size:
            raise ParamInvalid(f"group_size {self.group_size} goes with b_quant='group' only")

    def scales_of_b(self, shape: MatmulShape) -> int:
        """How many scales B may have besides one for all."""
        if self.b_quant.per_channel:
            return shape.n
        return shape.n * (shape.k // self.group_size) if self.b_quant.per_group else 1


class MatmulContext(OneCaller):
    """One product ready to run; serves one caller at a time, like ``rknnlite.spi.Context``."""

    _busy_reason = "this matmul is in use by another thread; make one per thread"
    _closed_reason = "this matmul is closed; make it again"
    _forked_reason = made_before_fork("this matmul", "make it in the child")

    def __init__(self, spec: MatmulSpec, soc: Soc) -> None:
        super().__init__()
        self.spec = spec
        self.soc = soc
        self.shape = spec.shapes[0]
        self._bound: dict[str, Any] = {}
        """Memory by the name of its matrix."""

    @property
    @abc.abstractmethod
    def backend_name(self) -> str:
        """Name of the backend."""

    @property
    @abc.abstractmethod
    def tensors(self) -> tuple[MatmulTensor, MatmulTensor, MatmulTensor]:
        """A, B and C for the current shape."""

    @abc.abstractmethod
    def set_shape(self, shape: MatmulShape) -> None:
        """Choose one of the shapes of a dynamic product.

        A matrix whose sizes stay (B, where M alone changes) stays as it was bound. Memory of the others is bound
        again here, as ``bind`` would, where it is large enough; one that is too small has to be replaced.
        """

    @abc.abstractmethod
    def set_core_mask(self, mask: int) -> None:
        """Choose NPU cores; raises what the SoC's runtime answers for an illegal mask."""

    @abc.abstractmethod
    def set_quant(self, name: str, scale: Sequence[float], zero_point: Sequence[int]) -> None:
        """Scales and zero points of A, B or C (none: all 0); before the run they count for."""

    @abc.abstractmethod
    def b_scale(self) -> float:
        """The scale that B's per-channel scales were brought to: times A's scale it is the scale of C."""

    @abc.abstractmethod
    def create_mem(self, size: int) -> Memory:
        """Allocate a buffer."""

    @abc.abstractmethod
    def import_mem(self, handle: int, size: int, offset: int = 0) -> Memory:
        """Wrap a file descriptor."""

    def _bind_again(self, before: Sequence[MatmulTensor]) -> None:
        """After ``set_shape``: bind what is bound to tensors that are no longer those of ``before``."""
        for old, new in zip(before, self.tensors):
            mem = self._bound.get(new.name)
            if mem is not None and new != old and mem.size >= new.size:
                self.bind(new, mem)

    def _check_bound(self) -> None:
        """Raise ContextInvalid where a matrix has no memory, or one that is too small for the current shape."""
        missing = [name for name in "ABC" if name not in self._bound]
        if missing:
            raise ContextInvalid(f"bind memory to {', '.join(missing)} before running")
        for tensor in self.tensors:
            have = self._bound[tensor.name].size
            if have < tensor.size:
                raise ContextInvalid(
                    f"{tensor.name}: the memory that is bound has {have} bytes, {tensor.size} are needed for shape "
                    f"{tuple(self.shape)}; bind memory that is large enough for every shape"
                )

    @abc.abstractmethod
    def bind(self, tensor: MatmulTensor, mem: Memory) -> None:
        """Use ``mem`` for A, B or C. The runtime may repack it here: bind A and B again after every refill."""

    @abc.abstractmethod
    def run(self) -> None:
        """Multiply; returns when C is there."""
