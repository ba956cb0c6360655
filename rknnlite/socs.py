"""The table of SoCs (``SOCS``, the only place of these facts), and which SoC this machine is.

Sources of the table: RKNN user guide 2.0 (tables 5-1, 5-2, 3-7; section 5.2), RKNNRT API reference 2.3.2 (tables 4-1,
4-2), vendor headers 2.3.2, and measurements named in docs/rknn-format.md. It is Python, because a program on a board
waits while a table of another form is parsed.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import NamedTuple, Optional

from . import config
from .errors import ParamInvalid, RknnError, TargetPlatformUnmatch
from .tensor import DType

__all__ = ["SOCS", "MatmulFacts", "OperandFacts", "Soc", "detect", "get", "table"]

_DEVICE_TREE = Path("/proc/device-tree/compatible")


class OperandFacts(NamedTuple):
    """What a matrix product demands of an operand of one element type (tables 3-5 and 3-7; int4 on rk3576: headers)."""

    a: int
    """Lanes of A, ``[K/a, M, a]`` in its native layout."""
    b: tuple[int, int]
    """Tile of B, ``(n, k)`` of ``[N/n, K/k, n, k]`` in its native layout."""
    k_align: int
    """K is a multiple of this and at most ``k_max`` (0: no limit); N likewise."""
    k_max: int
    n_align: int
    n_max: int


class MatmulFacts(NamedTuple):
    """Matrix products on one SoC: layouts and limits per element type of an operand; an absent type is not possible."""

    segment: int
    """Rows of B after which packing starts anew; 0: never."""
    operands: dict[DType, OperandFacts]


class Soc(NamedTuple):
    """One row of the table."""

    name: str
    names: tuple[str, ...]
    """Names in commerce, and of variants."""
    compatible: tuple[str, ...]
    """Words of the device tree."""
    chip_family: int
    """Number in the vendor's list of platforms; 0: not in it, the vendor's Python runtime does not exist there."""
    family: str
    """The word in the container that names the NPU design."""
    npu_model: str
    generation: str
    accepts: tuple[str, ...]
    """Platform names in a model that run on this SoC."""
    cores: int
    masks: tuple[int, ...]
    """Legal core masks; empty: the call is refused with -13."""
    c2: dict[str, int]
    """Lanes of the NC1HWC2 layout per element type."""
    align: int
    """Inputs with 1, 3 or 4 channels have rows padded to this many pixels; others to this many bytes."""
    zero_copy_only: bool = False
    """The real runtime has no common path (inputs_set, outputs_get); the CPU reference has both."""
    matmul: Optional[MatmulFacts] = None
    """None: not possible, or in no document (rv1126b)."""
    machine: str = "aarch64"
    """What ``uname -m`` says on a board."""

    def lanes(self, dtype: DType) -> int:
        """C2, the lanes of NC1HWC2 for an element type (8 and 16 bit types; others have none: 1)."""
        if dtype.bits == 8:
            return self.c2["int8"]
        return self.c2["float16"] if dtype.bits == 16 else 1

    def check_core_mask(self, mask: int) -> None:
        """Raise the error the real runtime answers with when ``mask`` is not legal on this SoC.

        On single-core SoCs the call itself does not exist (-13); elsewhere an unknown mask is refused with the
        plain -1 (measured on librknnrt 1.4.0 and 1.6.0).
        """
        if not self.masks:
            raise TargetPlatformUnmatch(
                f"{self.name} has a single NPU core and takes no core mask (got {mask}); leave core_mask out"
            )
        if mask not in self.masks:
            legal = ", ".join(f"{m:#x}" if m > 9 else str(m) for m in self.masks)
            if len(self.masks) == 1 << self.cores:
                legal = f"0 to {self.masks[-1]:#x}, a bit per core"
            raise ParamInvalid(
                f"core mask {mask:#x} is not legal on {self.name}; legal masks: {legal}", code=RknnError.code
            )

    def check_batch_cores(self, count: int) -> None:
        """Raise the error for a number of cores that a batch cannot use; legal where core masks are."""
        if not self.masks:
            raise TargetPlatformUnmatch(
                f"{self.name} has a single NPU core and takes no number of cores for a batch (got {count})"
            )
        if not 1 <= count <= self.cores:
            raise ParamInvalid(f"{self.name} has {self.cores} NPU cores, a batch cannot use {count} of them")


SOCS = (
    Soc(
        name="rk3588", names=("RK3588", "RK3588S", "RK3588J", "RK3588M", "RK3582", "RK3583"),
        compatible=("rk3588", "rk3588s", "rk3582", "rk3583"), chip_family=3,
        family="RKNPU v2", npu_model="RKNPU2-V2", generation="rknpu2",
        accepts=("rk3588",), cores=3, masks=(0, 1, 2, 4, 3, 7, 0xFFFF),
        c2={"int8": 16, "float16": 8}, align=16,
        matmul=MatmulFacts(8192, {
            DType.INT8: OperandFacts(16, (32, 32), 32, 0, 32, 4096),
            DType.FLOAT16: OperandFacts(8, (16, 32), 32, 0, 32, 4096),
            DType.INT4: OperandFacts(32, (64, 32), 32, 0, 64, 8192),
        }),
    ),
    Soc(
        name="rk3576", names=("RK3576", "RK3576S", "RK3576J"),
        compatible=("rk3576", "rk3576s"), chip_family=4,
        family="RKNPU f2", npu_model="RKNPU2-F2", generation="rknpu2",
        accepts=("rk3576",), cores=2, masks=(0, 1, 2, 3, 0xFFFF),
        c2={"int8": 16, "float16": 8}, align=16,
        matmul=MatmulFacts(4096, {
            DType.INT8: OperandFacts(16, (32, 32), 32, 0, 32, 4096),
            DType.FLOAT16: OperandFacts(8, (16, 32), 32, 0, 32, 4096),
            DType.INT4: OperandFacts(32, (64, 32), 32, 0, 64, 8192),
        }),
    ),
    Soc(
        name="rk3566", names=("RK3566",),
        compatible=("rk3566",), chip_family=2,
        family="RKNPU lite", npu_model="RKNPU2-LITE", generation="rknpu2",
        accepts=("rk3566", "rk3568"), cores=1, masks=(),
        c2={"int8": 8, "float16": 4}, align=8,
        matmul=MatmulFacts(0, {
            DType.INT8: OperandFacts(8, (16, 32), 32, 10240, 16, 4096),
            DType.FLOAT16: OperandFacts(4, (8, 16), 32, 10240, 16, 4096),
        }),
    ),
    Soc(
        name="rk3568", names=("RK3568", "RK3568B2", "RK3568J"),
        compatible=("rk3568",), chip_family=2,
        family="RKNPU lite", npu_model="RKNPU2-LITE", generation="rknpu2",
        accepts=("rk3566", "rk3568"), cores=1, masks=(),
        c2={"int8": 8, "float16": 4}, align=8,
        matmul=MatmulFacts(0, {
            DType.INT8: OperandFacts(8, (16, 32), 32, 10240, 16, 4096),
            DType.FLOAT16: OperandFacts(4, (8, 16), 32, 10240, 16, 4096),
        }),
    ),
    Soc(
        name="rk3562", names=("RK3562", "RK3562J"),
        compatible=("rk3562",), chip_family=1,
        family="RKNPU t4", npu_model="RKNPU2-T4", generation="rknpu2",
        accepts=("rk3562",), cores=1, masks=(),
        c2={"int8": 16, "float16": 8}, align=16,
        matmul=MatmulFacts(0, {
            DType.INT8: OperandFacts(16, (16, 32), 32, 10240, 16, 4096),
            DType.FLOAT16: OperandFacts(8, (8, 32), 32, 10240, 16, 4096),
        }),
    ),
    Soc(
        name="rv1126b", names=("RV1126B",),
        compatible=("rv1126b",), chip_family=5,
        family="RKNPU f3", npu_model="RKNPU2-F3", generation="rknpu2",
        accepts=("rv1126b",), cores=1, masks=(),
        c2={"int8": 16, "float16": 8}, align=16,
    ),
    Soc(
        name="rv1103", names=("RV1103",),
        compatible=("rv1103",), chip_family=0,
        family="RKNPU t3", npu_model="RKNPU2-T3", generation="rknpu2",
        accepts=("rv1103", "rv1106"), cores=1, masks=(),
        c2={"int8": 16, "float16": 8}, align=16, zero_copy_only=True, machine="armv7l",
    ),
    Soc(
        name="rv1106", names=("RV1106", "RV1106G2", "RV1106G3"),
        compatible=("rv1106", "rv1106g2", "rv1106g3"), chip_family=0,
        family="RKNPU t3", npu_model="RKNPU2-T3", generation="rknpu2",
        accepts=("rv1103", "rv1106"), cores=1, masks=(),
        c2={"int8": 16, "float16": 8}, align=16, zero_copy_only=True, machine="armv7l",
    ),
    Soc(
        name="rv1103b", names=("RV1103B",),
        compatible=("rv1103b",), chip_family=0,
        family="RKNPU w1", npu_model="RKNPU2-W1", generation="rknpu2",
        accepts=("rv1103b", "rv1106b"), cores=1, masks=(),
        c2={"int8": 8, "float16": 4}, align=16, zero_copy_only=True, machine="armv7l",
    ),
    Soc(
        name="rv1106b", names=("RV1106B",),
        compatible=("rv1106b",), chip_family=0,
        family="RKNPU w1", npu_model="RKNPU2-W1", generation="rknpu2",
        accepts=("rv1103b", "rv1106b"), cores=1, masks=(),
        c2={"int8": 8, "float16": 4}, align=16, zero_copy_only=True, machine="armv7l",
    ),
    # Coprocessors (RKNN3 user guide 1.0.0, 4.2.1; RKNN3 C API reference 1.0.0). Their own models start with RKNX
    # and run on the device only; the CPU reference plays them with files of any RKNPU2 SoC, so accepts is empty.
    # The padding of rows is in no document: RKNPU2's is taken.
    Soc(
        name="rk1820", names=("RK1820",),
        compatible=(), chip_family=0,
        family="RKNPU v3", npu_model="RKNPU3", generation="rknpu3",
        accepts=(), cores=8, masks=tuple(range(1 << 8)),
        c2={"int8": 32, "float16": 16}, align=16,
    ),
    Soc(
        name="rk1828", names=("RK1828",),
        compatible=(), chip_family=0,
        family="RKNPU v3", npu_model="RKNPU3", generation="rknpu3",
        accepts=(), cores=8, masks=tuple(range(1 << 8)),
        c2={"int8": 32, "float16": 16}, align=16,
    ),
    # The first generation (RKNN API 1.7; librknn_api). Its runtime knows no core masks, no native layouts, no padded
    # rows. RK3399Pro has the NPU of an RK1808, RV1109 that of an RV1126 at half the clock.
    Soc(
        name="rk1806", names=("RK1806",),
        compatible=("rk1806",), chip_family=0,
        family="RKNPU1", npu_model="RKNPU1", generation="rknpu1",
        accepts=("rk1806", "rk1808", "rk3399pro"), cores=1, masks=(),
        c2={"int8": 1, "float16": 1}, align=1,
    ),
    Soc(
        name="rk1808", names=("RK1808",),
        compatible=("rk1808",), chip_family=0,
        family="RKNPU1", npu_model="RKNPU1", generation="rknpu1",
        accepts=("rk1806", "rk1808", "rk3399pro"), cores=1, masks=(),
        c2={"int8": 1, "float16": 1}, align=1,
    ),
    Soc(
        name="rk3399pro", names=("RK3399Pro",),
        compatible=("rk3399pro",), chip_family=0,
        family="RKNPU1", npu_model="RKNPU1", generation="rknpu1",
        accepts=("rk1806", "rk1808", "rk3399pro"), cores=1, masks=(),
        c2={"int8": 1, "float16": 1}, align=1,
    ),
    Soc(
        name="rv1109", names=("RV1109",),
        compatible=("rv1109",), chip_family=0,
        family="RKNPU1", npu_model="RKNPU1", generation="rknpu1",
        accepts=("rv1109", "rv1126"), cores=1, masks=(),
        c2={"int8": 1, "float16": 1}, align=1, machine="armv7l",
    ),
    Soc(
        name="rv1126", names=("RV1126",),
        compatible=("rv1126",), chip_family=0,
        family="RKNPU1", npu_model="RKNPU1", generation="rknpu1",
        accepts=("rv1109", "rv1126"), cores=1, masks=(),
        c2={"int8": 1, "float16": 1}, align=1, machine="armv7l",
    ),
)  # fmt: skip
"""Every SoC; the order is that of messages and lists."""


@functools.cache
def table() -> dict[str, Soc]:
    """All SoCs by lower-case name."""
    return {soc.name: soc for soc in SOCS}


def get(name: str) -> Soc:
    """The SoC of that name in any spelling (``RK3588S`` is an rk3588); raises ParamInvalid."""
    wanted = name.strip().lower()
    for soc in table().values():
        if wanted == soc.name or wanted in (other.lower() for other in soc.names):
            return soc
    raise ParamInvalid(f"unknown SoC {name!r}; known: {', '.join(table())}")


def detect() -> Soc | None:
    """The SoC of this machine: ``RKNNLITE_SOC``, else the device tree; None when there is neither."""
    named = config.get("soc")
    if named:
        return get(named)
    try:
        text = _DEVICE_TREE.read_bytes().decode("ascii", "replace").lower()
    except OSError:
        return None
    words = set(re.split(r"[,\0\s]+", text))
    for soc in table().values():
        if words & set(soc.compatible):
            return soc
    return None
