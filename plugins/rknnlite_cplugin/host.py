"""The host: compiled operators from a library that the user names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rknnlite import config
from rknnlite.errors import ParamInvalid
from rknnlite.native.childprocess import TIME_LIMIT, checked_limit
from rknnlite.spi import OpHost, Probe
from rknnlite.spi.custom_op import CustomOp

from .isolated import IsolatedOp
from .library import is_elf, open_library
from .op import CompiledOp

__all__ = ["CPluginHost", "isolate_by_default"]

_OPTIONS = {"isolate", "time_limit"}


class CPluginHost(OpHost):
    """Loads ``librkcst_*.so`` through the C ABI of librknnrt's custom operators."""

    name = "cplugin"

    def probe(self) -> Probe:
        return Probe(True, "compiled operators through the C ABI", devices=("cpu",))

    def load(self, path: Path, options: Mapping[str, Any]) -> list[CustomOp] | None:
        """The operator of a library.

        Options: ``isolate`` (a worker process, default from ``RKNNLITE_ISOLATE_PLUGINS``), ``time_limit`` (seconds
        per call, None for no limit; isolated only).
        """
        if not (path.name.endswith(".so") or ".so." in path.name or is_elf(path)):
            return None
        unknown = set(options) - _OPTIONS
        if unknown:
            raise ParamInvalid(f"{path}: unknown options {sorted(unknown)}; there are {sorted(_OPTIONS)}")
        if options.get("isolate", isolate_by_default()):
            return [IsolatedOp(path, checked_limit(options.get("time_limit", TIME_LIMIT), path))]
        if "time_limit" in options:
            raise ParamInvalid(
                f"{path}: time_limit needs isolate=True: a call in this process cannot be ended"
            )
        return [CompiledOp(open_library(path))]


def isolate_by_default() -> bool:
    """``RKNNLITE_ISOLATE_PLUGINS``."""
    return (config.get("isolate_plugins") or "0") not in ("", "0")
