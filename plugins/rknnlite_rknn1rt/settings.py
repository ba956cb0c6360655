"""Options of ``rknnlite.open(..., backend="rknn1rt", **options)``."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

from rknnlite.errors import ParamInvalid
from rknnlite.log import logger
from rknnlite.spi import OpenOptions
from rknnlite.spi.types import check_options

from .abi import Flavour, InitFlag

__all__ = ["Rknn1rtSettings"]

_PRIORITIES = {"high": 0, "medium": InitFlag.PRIOR_MEDIUM, "low": InitFlag.PRIOR_LOW}
_PLACES = {"load_model_in_npu": Flavour.HOST, "precompile": Flavour.BOARD}


class Rknn1rtSettings(NamedTuple):
    """What ``rknn_init`` is told.

    Attributes:
        library: path of the runtime library.
        device_id: which device, host flavour only; None leaves it to the library.
        async_mode: outputs are those of the previous frame (``RKNN_FLAG_ASYNC_MASK``).
        verbose: collect figures per layer.
        collect_perf: the same, by its own name.
        priority: ``"high"`` (default), ``"medium"`` or ``"low"``.
        load_model_in_npu: the model's path is one on the device; host flavour only.
        precompile: keep the pre-compiled model for ``precompiled``; board flavour only.
        flags: further ``RKNN_FLAG_*`` bits.
    """

    library: Optional[str] = None
    device_id: Optional[str] = None
    async_mode: bool = False
    verbose: bool = False
    collect_perf: bool = False
    priority: str = "high"
    load_model_in_npu: bool = False
    precompile: bool = False
    flags: int = 0

    @classmethod
    def of(cls, options: OpenOptions) -> Rknn1rtSettings:
        """Read the options, those of other backends left out; raises ParamInvalid for unknown ones and illegal values."""
        check_options("rknn1rt", options.extra)
        given: dict[str, Any] = {n: value for n, value in options.extra.items() if n in cls._fields}
        given.setdefault("async_mode", options.async_mode)
        given.setdefault("verbose", options.verbose)
        given.setdefault("device_id", options.device_id)
        settings = cls(**given)
        if not isinstance(settings.priority, str) or settings.priority not in _PRIORITIES:
            raise ParamInvalid(f"priority {settings.priority!r} is not one of {', '.join(_PRIORITIES)}")
        if options.timeout_ms:
            logger.warning(
                "librknn_api takes no time limit for runs: timeout_ms=%d does nothing; give one to wait()",
                options.timeout_ms,
            )
        return settings

    def check(self, flavour: Flavour) -> None:
        """Raise ParamInvalid for what the library's flavour has not."""
        if self.device_id is not None and flavour is Flavour.BOARD:
            raise ParamInvalid(
                f"device_id {self.device_id!r} was given, but this librknn_api drives the board's own NPU; leave it out"
            )
        for name, needed in _PLACES.items():
            if getattr(self, name) and flavour is not needed:
                raise ParamInvalid(
                    f"{name} is of the {needed.value} flavour of librknn_api; this one is of the {flavour.value} flavour"
                )

    @property
    def init_flags(self) -> int:
        """The flags of ``rknn_init``."""
        bits = {
            InitFlag.ASYNC: self.async_mode,
            InitFlag.COLLECT_PERF: self.verbose or self.collect_perf,
            InitFlag.LOAD_MODEL_IN_NPU: self.load_model_in_npu,
            InitFlag.PRECOMPILE: self.precompile,
        }
        flags = int(self.flags) | int(_PRIORITIES[self.priority])
        for bit, wanted in bits.items():
            flags |= int(bit) if wanted else 0
        return flags
