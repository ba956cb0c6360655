"""The host: libraries named by the user, and those in the directories of operator plugins."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rknnlite import config
from rknnlite.abi import rknn_op as abi
from rknnlite.errors import ParamInvalid, RknnError
from rknnlite.log import logger
from rknnlite.native.childprocess import TIME_LIMIT, checked_limit
from rknnlite.spi import OpHost, Probe
from rknnlite.spi.custom_op import CustomOp

from .isolated import IsolatedOp
from .library import is_elf, open_library, unsafe_reason
from .op import CompiledOp

__all__ = ["CPluginHost", "discover"]

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
        if options.get("isolate", _isolate_by_default()):
            return [IsolatedOp(path, checked_limit(options.get("time_limit", TIME_LIMIT), path))]
        if "time_limit" in options:
            raise ParamInvalid(
                f"{path}: time_limit needs isolate=True: a call in this process cannot be ended"
            )
        return [CompiledOp(open_library(path))]


def _isolate_by_default() -> bool:
    return (config.get("isolate_plugins") or "0") not in ("", "0")


@functools.lru_cache(maxsize=256)
def _loaded(file: Path, isolate: bool, inode: int, changed: int) -> CustomOp:
    """The operator of a library, loaded once until the file changes: every model that is opened asks for it."""
    return IsolatedOp(file, TIME_LIMIT) if isolate else CompiledOp(open_library(file))


def directories() -> Iterator[Path]:
    """``RKNNLITE_OP_PLUGINS`` (separated by colons) where it is set, else the places of the vendor's server."""
    named = config.get("op_plugins")
    for place in named.split(os.pathsep) if named is not None else abi.PLUGIN_DIRECTORIES:
        if place and Path(place).is_dir():
            yield Path(place)


def discover() -> list[CustomOp]:
    """Operators of the plugin directories; what cannot be loaded is named in a warning and skipped."""
    found: list[CustomOp] = []
    for folder in directories():
        for file in sorted(folder.glob(f"{abi.PLUGIN_PREFIX}*.so")):
            try:
                reason = unsafe_reason(file)
                if reason is not None:
                    raise ParamInvalid(reason)
                status = file.stat()
                found.append(_loaded(file, _isolate_by_default(), status.st_ino, status.st_mtime_ns))
            except (RknnError, OSError) as error:
                logger.warning("operator plugin %s is skipped: %s", file, error)
    return found
