"""Where compiled operators are found without being named: the directories of operator plugins."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rknnlite import config
from rknnlite.abi import rknn_op as abi
from rknnlite.errors import ParamInvalid, RknnError
from rknnlite.log import logger
from rknnlite.spi.custom_op import CustomOp

if TYPE_CHECKING:
    from .host import Isolation

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
                found.append(_operator(file))
            except (RknnError, OSError) as error:
                logger.warning("operator plugin %s is skipped: %s", file, error)
    return found


def _operator(file: Path) -> CustomOp:
    """The operator of a library; what loads it is imported where there is one."""
    from .host import Isolation
    from .library import unsafe_reason

    reason = unsafe_reason(file)
    if reason is not None:
        raise ParamInvalid(reason)
    status = file.stat()
    return _loaded(file, Isolation.wanted(), status.st_ino, status.st_mtime_ns)


@functools.lru_cache(maxsize=256)
def _loaded(file: Path, isolation: Isolation, inode: int, changed: int) -> CustomOp:
    """The operator of a library, loaded once until the file changes: every model that is opened asks for it."""
    from .host import load_op

    return load_op(file, isolation)
