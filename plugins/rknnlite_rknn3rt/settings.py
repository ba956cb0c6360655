"""Options of ``rknnlite.open(..., backend="rknn3rt", **options)`` and of ``open_llm``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Optional

from rknnlite.abi.rknn3_types import RKNN3Config
from rknnlite.errors import ParamInvalid
from rknnlite.spi.types import check_options

__all__ = ["Rknn3rtSettings"]

_UINT32 = 0xFFFFFFFF


@dataclass(frozen=True)
class Rknn3rtSettings:
    """What ``rknn3_init`` and ``rknn3_model_init`` are told.

    Attributes:
        library: path of the runtime library.
        device_id: which coprocessor, see ``Backend.devices``; None takes the only one.
        timeout_ms: how long a run may take, 0: as long as it likes.
        priority: of the context, as the runtime counts it.
        user_internal: memory for internal tensors comes from ``set_internal_mem``.
        user_weight: memory for weights comes from outside.
        user_sram: SRAM is the caller's.
        native_async: runs of a language model go through ``rknn3_session_run_async``, in a thread of the library's
            own, instead of ``rknn3_session_run``. The C API has no call that waits for such a run: its end is known
            by the last callback alone, how it failed is not known, and ``close`` relies on the library to wait.
        collect_perf: asks for nothing here: every run is timed, see ``perf_table``.
        postprocess: path of a post-process plugin.
        decrypt_key_path: key file of an encrypted model (runtime 1.0.4 and after).
        decrypt_key: the same as bytes.
    """

    library: Optional[str] = None
    device_id: Optional[str] = None
    timeout_ms: int = 0
    priority: int = 0
    user_internal: bool = False
    user_weight: bool = False
    user_sram: bool = False
    native_async: bool = False
    collect_perf: bool = False
    postprocess: Any = None
    decrypt_key_path: Any = None
    decrypt_key: Optional[bytes] = None

    @classmethod
    def of(cls, extra: Mapping[str, Any]) -> Rknn3rtSettings:
        """Read the options, those of other backends left out; raises ParamInvalid for unknown ones and illegal values."""
        check_options("rknn3rt", extra)
        priority = extra.get("priority", 0)
        if not isinstance(priority, int):
            raise ParamInvalid(
                f"priority {priority!r} is no number, which backend rknn3rt counts priorities by; 0: as usual"
            )
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in extra.items() if name in known})

    def config(self, core_mask: int | None) -> RKNN3Config:
        """The structure for ``rknn3_model_init``; raises ParamInvalid for illegal values."""
        mask = core_mask or 0
        if not 0 <= mask <= _UINT32:
            raise ParamInvalid(f"core_mask is {mask:#x}; give one bit per core, 0x1 to 0xff, or 0 for any")
        if not 0 <= self.timeout_ms <= _UINT32:
            raise ParamInvalid(f"timeout_ms is {self.timeout_ms}, must be 0 to {_UINT32}")
        return RKNN3Config(
            priority=self.priority,
            run_timeout=self.timeout_ms,
            run_core_mask=mask,
            user_mem_weight=self.user_weight,
            user_mem_internal=self.user_internal,
            user_sram=self.user_sram,
        )
