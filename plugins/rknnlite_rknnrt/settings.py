"""Options of ``rknnlite.open(..., backend="rknnrt", **options)``."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

from rknnlite_backend.abi.init_flags import PRIORITIES, flags_of

from rknnlite.errors import ParamInvalid
from rknnlite.spi import Context, OpenOptions
from rknnlite.spi.types import check_options

__all__ = ["RknnrtSettings"]


class RknnrtSettings(NamedTuple):
    """What ``rknn_init`` is told.

    Attributes:
        library: path of the runtime library.
        async_mode: outputs are those of the previous frame (``RKNN_FLAG_ASYNC_MASK``).
        verbose: collect figures per layer.
        collect_perf: the same, by its own name.
        priority: ``"high"`` (default), ``"medium"`` or ``"low"``.
        sram: internal tensors in SRAM as far as it reaches.
        outside: ``"all"`` (weights, internal tensors and io are given by ``set_weight_mem`` ...) or ``"internal"``.
        master: context whose weights this weight-less model shares.
        model_in_npu_memory: the NPU reads the model in place (``RKNN_FLAG_MODEL_BUFFER_ZERO_COPY``).
        flush_inputs, flush_outputs: False leaves the cache to ``sync``; not for the common path.
        info_only: a hollow context that answers only ``memory()``.
        flags: further ``RKNN_FLAG_*`` bits.
        user_key: key envelope of an encrypted model.
    """

    library: Optional[str] = None
    async_mode: bool = False
    verbose: bool = False
    collect_perf: bool = False
    priority: str = "high"
    sram: bool = False
    outside: Optional[str] = None
    master: Optional[Context] = None
    model_in_npu_memory: bool = False
    flush_inputs: bool = True
    flush_outputs: bool = True
    info_only: bool = False
    flags: int = 0
    user_key: Optional[bytes] = None

    @classmethod
    def of(cls, options: OpenOptions) -> RknnrtSettings:
        """Read the options, those of other backends left out; raises ParamInvalid for unknown ones and illegal values."""
        check_options("rknnrt", options.extra, values=False)
        given: dict[str, Any] = {n: value for n, value in options.extra.items() if n in cls._fields}
        given.setdefault("async_mode", options.async_mode)
        given.setdefault("verbose", options.verbose)
        settings = cls(**given)
        if not isinstance(settings.priority, str) or settings.priority not in PRIORITIES:
            raise ParamInvalid(f"priority {settings.priority!r} is not one of {', '.join(PRIORITIES)}")
        if settings.outside is not None and str(settings.outside) not in ("all", "internal"):
            raise ParamInvalid(f"outside={settings.outside!r} is not 'all', 'internal' or None")
        check_options("rknnrt", options.extra)
        return settings

    @property
    def init_flags(self) -> int:
        """The flags of ``rknn_init``."""
        verbose = {"collect_perf": self.verbose or self.collect_perf}
        return flags_of({**self._asdict(), **verbose})
