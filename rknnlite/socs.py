"""The table of SoCs (``socs.yaml``) as typed objects, and which SoC this machine is."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from . import config
from .errors import ParamInvalid, TargetPlatformUnmatch
from .tensor import DType

__all__ = ["MatmulFacts", "OperandFacts", "Soc", "detect", "get", "table"]

_DEVICE_TREE = Path("/proc/device-tree/compatible")


@dataclass(frozen=True)
class OperandFacts:
    """What a matrix product demands of an operand of one element type; see ``matmul`` in ``socs.yaml``."""

    a: int
    b: tuple[int, int]
    k_align: int
    k_max: int
    n_align: int
    n_max: int


@dataclass(frozen=True)
class MatmulFacts:
    """Matrix products on one SoC: layouts and limits per element type, and the rows of one segment of B."""

    segment: int
    operands: dict[DType, OperandFacts]

    @classmethod
    def of(cls, row: dict[str, Any]) -> MatmulFacts:
        """From a row of the table."""
        rest = {key: value for key, value in row.items() if key != "segment"}
        operands = {
            DType[key.upper()]: OperandFacts(**{**value, "b": tuple(value["b"])})
            for key, value in rest.items()
        }
        return cls(row["segment"], operands)


@dataclass(frozen=True)
class Soc:
    """One row of the table; see the head of ``socs.yaml`` for the meaning of the fields."""

    name: str
    names: tuple[str, ...]
    compatible: tuple[str, ...]
    chip_family: int
    family: str
    npu_model: str
    generation: str
    accepts: tuple[str, ...]
    cores: int
    masks: tuple[int, ...]
    c2: dict[str, int]
    align: int
    zero_copy_only: bool = False
    matmul: Optional[MatmulFacts] = None

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
            error = ParamInvalid(f"core mask {mask:#x} is not legal on {self.name}; legal masks: {legal}")
            error.code = -1
            raise error

    def check_batch_cores(self, count: int) -> None:
        """Raise the error for a number of cores that a batch cannot use; legal where core masks are."""
        if not self.masks:
            raise TargetPlatformUnmatch(
                f"{self.name} has a single NPU core and takes no number of cores for a batch (got {count})"
            )
        if not 1 <= count <= self.cores:
            raise ParamInvalid(f"{self.name} has {self.cores} NPU cores, a batch cannot use {count} of them")


@functools.cache
def table() -> dict[str, Soc]:
    """All SoCs by lower-case name, read once from ``socs.yaml``."""
    from ruamel.yaml import YAML  # a slow import: only when a SoC is first asked for

    text = Path(__file__).with_name("socs.yaml").read_text(encoding="utf-8")
    rows = YAML(typ="safe", pure=True).load(text)
    tuples = ("names", "compatible", "accepts", "masks")
    found: dict[str, Soc] = {}
    for name, row in rows.items():
        if row["masks"] == "any":
            row["masks"] = range(1 << row["cores"])
        fields: dict[str, Any] = {key: tuple(value) if key in tuples else value for key, value in row.items()}
        if "matmul" in fields:
            fields["matmul"] = MatmulFacts.of(fields["matmul"])
        found[name] = Soc(name=name, **fields)
    return found


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
