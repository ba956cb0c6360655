"""Flags of ``rknn_init`` and the options of ``rknnlite.open`` that say the same: one table, read in both directions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rknnlite.abi.rknn_api import InitFlag
from rknnlite.errors import ParamInvalid

__all__ = ["PRIORITIES", "flags_of", "options_of"]


PRIORITIES = {"high": 0, "medium": InitFlag.PRIOR_MEDIUM, "low": InitFlag.PRIOR_LOW}
_PRIORITY_BITS = 3
_OPTIONS: tuple[tuple[InitFlag, str, Any], ...] = (
    (InitFlag.ASYNC, "async_mode", True),
    (InitFlag.COLLECT_PERF, "collect_perf", True),
    (InitFlag.INTERNAL_ALLOC_OUTSIDE, "outside", "internal"),
    (InitFlag.MEM_ALLOC_OUTSIDE, "outside", "all"),  # counts where both are set
    (InitFlag.COLLECT_MODEL_INFO_ONLY, "info_only", True),
    (InitFlag.ENABLE_SRAM, "sram", True),
    (InitFlag.DISABLE_FLUSH_INPUT, "flush_inputs", False),
    (InitFlag.DISABLE_FLUSH_OUTPUT, "flush_outputs", False),
    (InitFlag.MODEL_BUFFER_ZERO_COPY, "model_in_npu_memory", True),
)
"""A flag, and the option with the value that stands for it."""


def flags_of(options: Mapping[str, Any]) -> int:
    """Options of ``rknnlite.open`` -> flags of ``rknn_init``; options that are no flag are passed over."""
    flags = int(options.get("flags", 0)) | int(PRIORITIES[options.get("priority", "high")])
    for flag, name, value in _OPTIONS:
        given = options.get(name)
        same = given == value if isinstance(value, str) else given is not None and bool(given) is value
        flags |= int(flag) if same else 0
    return flags | (int(InitFlag.SHARE_WEIGHT_MEM) if options.get("master") is not None else 0)


def options_of(flags: int, master: Any = None) -> dict[str, Any]:
    """Flags of ``rknn_init`` -> keyword arguments of ``rknnlite.open``, for any backend.

    Args:
        flags: as the C API has them. Those that no option stands for go into the option ``flags``.
        master: the context whose weights are shared, with ``SHARE_WEIGHT_MEM``.

    Raises:
        ParamInvalid: bits that ``rknn_init`` does not know, a priority of 3, weights shared with nobody.
    """
    unknown = flags & ~sum(InitFlag)
    if flags < 0 or unknown:
        raise ParamInvalid(
            f"rknn_init has no flag {unknown:#x} (flags {flags:#x}); use the names of rknn_api.h"
        )
    wanted = flags & _PRIORITY_BITS
    words = [word for word, number in PRIORITIES.items() if number == wanted]
    if not words:
        raise ParamInvalid(f"priority {wanted} does not exist: 0 is high, 1 medium, 2 low (flags {flags:#x})")
    options: dict[str, Any] = {} if words == ["high"] else {"priority": words[0]}
    rest = flags & ~_PRIORITY_BITS
    for flag, name, value in _OPTIONS:
        if rest & flag:
            options[name] = value
            rest &= ~flag
    if rest & InitFlag.SHARE_WEIGHT_MEM:
        if master is None:
            raise ParamInvalid(
                "RKNN_FLAG_SHARE_WEIGHT_MEM needs the context whose weights are shared, in rknn_init_extend"
            )
        options["master"] = master
        rest &= ~InitFlag.SHARE_WEIGHT_MEM
    return {**options, "flags": int(rest)} if rest else options
