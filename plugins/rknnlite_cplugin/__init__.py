"""Hosts compiled CPU operators (``librkcst_*.so``) on any backend, through the vendor's C ABI.

Every model that is opened asks for the operators that lie in the plugin directories, so what looks for them is here; what loads
one is imported when there is one.
"""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rknnlite import abi, config, hookimpl
from rknnlite.errors import ParamInvalid, RknnError
from rknnlite.log import logger
from rknnlite.spi.plugin_problems import may_enter, note

if TYPE_CHECKING:
    from rknnlite.spi import CustomOp, OpHost

    from .host import Isolation

__all__ = ["directories", "discover", "rknnlite_register_custom_ops", "rknnlite_register_op_hosts"]

_NAME = "cplugin"
"""Our entry point."""
_skipped: set[Path] = set()  # by the last discovery


def directories() -> Iterator[Path]:
    """``RKNNLITE_OP_PLUGINS`` (separated by colons) where it is set, else the places of the vendor's server.

    What is named and no folder, or cannot be looked into, is noted as a problem.
    """
    named = config.get("op_plugins")
    for place in named.split(os.pathsep) if named is not None else abi.PLUGIN_DIRECTORIES:
        if not place:
            continue
        number, reason = _unusable(Path(place))
        if not number:
            yield Path(place)
        elif named is not None or number != errno.ENOENT:
            remedy = "correct RKNNLITE_OP_PLUGINS" if named is not None else "look at that path"
            _note(Path(place), reason, remedy)


def _unusable(folder: Path) -> tuple[int, str]:
    """Number and text of the error of looking into a folder; 0 where there is none."""
    try:
        next(folder.iterdir(), None)
    except OSError as error:  # handed on, it would hold the frames that hold it
        return error.errno or errno.EIO, error.strerror or str(error)
    return 0, ""


def discover() -> list[CustomOp]:
    """Operators of the plugin directories; what cannot be loaded is named in a warning, noted and skipped."""
    found: list[CustomOp] = []
    earlier = set(_skipped)
    _skipped.clear()
    for folder in directories():
        for file in sorted(folder.glob(f"{abi.PLUGIN_PREFIX}*.so")):
            if not may_enter(_NAME, str(file)):
                continue
            try:
                found.append(_operator(file))
            except (RknnError, OSError) as error:
                _note(file, str(error).replace(f"{file}: ", ""), "mend or remove that file")
    for place in earlier - _skipped:
        note(_NAME, f"place {place}", "")  # mended or gone
    return found


def _note(place: Path, problem: str, remedy: str) -> None:
    """Keep a problem of this discovery, and say it once."""
    _skipped.add(place)
    what = "folder of operator plugins" if place.suffix != ".so" else "operator plugin"
    if note(_NAME, f"place {place}", f"{what} {place} is skipped: {problem}", remedy):
        logger.warning("%s %s is skipped: %s", what, place, problem)


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


@hookimpl
def rknnlite_register_op_hosts(register: Callable[[OpHost], None]) -> None:
    """Offer the host ``cplugin``."""
    from .host import CPluginHost

    register(CPluginHost())


@hookimpl
def rknnlite_register_custom_ops(register: Callable[[CustomOp], None]) -> None:
    """Offer the operators that lie in the plugin directories."""
    for op in discover():
        register(op)
