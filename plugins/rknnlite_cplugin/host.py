"""The host: compiled operators from a library that the user names."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rknnlite_backend.crash import name_crashes
from rknnlite_programs.childprocess import TIME_LIMIT, checked_limit

from rknnlite import config
from rknnlite.errors import ParamInvalid
from rknnlite.spi import OpHost, Probe
from rknnlite.spi.custom_op import CustomOp

from .isolated import IsolatedOp
from .library import is_elf, open_library
from .op import CompiledOp

__all__ = ["CPluginHost", "Isolation", "load_op"]

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
        isolation = Isolation.wanted(options.get("isolate"))
        if isolation is Isolation.ALWAYS:
            return [IsolatedOp(path, checked_limit(options.get("time_limit", TIME_LIMIT), path))]
        if "time_limit" in options:
            raise ParamInvalid(
                f"{path}: time_limit needs isolate=True: a call in this process cannot be ended"
            )
        return [load_op(path, isolation)]


class Isolation(enum.Enum):
    """Whether compiled operators run in a process of their own."""

    NEVER = "0"
    ALWAYS = "1"
    WHERE_POSSIBLE = "auto"
    """Not for the GPU, nor when librknnrt calls the operators; and no call is too long."""

    @classmethod
    def wanted(cls, asked: Any = None) -> Isolation:
        """What the caller asked for, else the setting."""
        if asked is not None:
            return cls.ALWAYS if asked else cls.NEVER
        text = config.get("isolate_plugins") or "0"
        return cls.WHERE_POSSIBLE if text == "auto" else cls.NEVER if text == "0" else cls.ALWAYS


def load_op(path: Path, isolation: Isolation) -> CustomOp:
    """The operator of a library, isolated or not."""
    if isolation is Isolation.ALWAYS:
        return IsolatedOp(path, TIME_LIMIT)
    if isolation is Isolation.WHERE_POSSIBLE:
        with contextlib.suppress(ParamInvalid):  # made for the GPU; or broken, which is said below
            return IsolatedOp(path, None, or_here=lambda: _here(path))
    return _here(path)


def _here(path: Path) -> CompiledOp:
    """The operator, in this process."""
    name_crashes()
    return CompiledOp(open_library(path))
