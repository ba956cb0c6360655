"""Where compiled operators are found without being named: the directories of operator plugins."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from pathlib import Path

from rknnlite import config
from rknnlite.abi import rknn_op as abi
from rknnlite.errors import ParamInvalid, RknnError
from rknnlite.log import logger
from rknnlite.native.childprocess import TIME_LIMIT
from rknnlite.spi.custom_op import CustomOp

from .host import isolate_by_default
from .isolated import IsolatedOp
from .library import open_library, unsafe_reason
from .op import CompiledOp

__all__ = ["directories", "discover"]


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
                found.append(_loaded(file, isolate_by_default(), status.st_ino, status.st_mtime_ns))
            except (RknnError, OSError) as error:
                logger.warning("operator plugin %s is skipped: %s", file, error)
    return found


@functools.lru_cache(maxsize=256)
def _loaded(file: Path, isolate: bool, inode: int, changed: int) -> CustomOp:
    """The operator of a library, loaded once until the file changes: every model that is opened asks for it."""
    return IsolatedOp(file, TIME_LIMIT) if isolate else CompiledOp(open_library(file))
