"""Which core mask each worker of a pool gets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional, Union

from ..errors import ParamInvalid
from ..socs import Soc

__all__ = ["ALL_CORES", "Cores", "core_masks", "mask_label"]

Cores = Union[str, int, Sequence[int]]
ALL_CORES = 0xFFFF
"""The runtime's word for all cores that there are."""


def core_masks(soc: Soc, workers: int, cores: Cores) -> list[Optional[int]]:
    """One core mask per worker, None where none is to be set; raises ParamInvalid, TargetPlatformUnmatch."""
    if cores == "spread":
        return [1 << i % soc.cores if soc.masks and workers > 1 else None for i in range(workers)]
    if isinstance(cores, str):
        if cores not in ("auto", "all"):
            raise ParamInvalid(
                f"cores={cores!r} is not 'spread', 'auto', 'all', a mask or one mask per worker"
            )
        return [ALL_CORES if cores == "all" and soc.masks else None] * workers
    masks = [int(cores)] * workers if isinstance(cores, int) else [int(mask) for mask in cores]
    if len(masks) != workers:
        raise ParamInvalid(f"{len(masks)} core masks were given for {workers} workers")
    for mask in masks:
        soc.check_core_mask(mask)
    return list(masks)


def mask_label(mask: Optional[int]) -> str:
    """``auto``, ``all``, or the numbers of the cores: ``0,2``."""
    if not mask:
        return "auto"
    if mask == ALL_CORES:
        return "all"
    return ",".join(str(bit) for bit in range(mask.bit_length()) if mask >> bit & 1)
