"""What the library prints or writes about a run by itself."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from rknnlite_insight.dumps import Dump, DumpWriter

from rknnlite.errors import ParamInvalid, RknnError
from rknnlite.files.arrays import read_array

from .errors import check
from .native_context import NativeContext

__all__ = ["dump", "dump_features", "profile_ops"]

Feeds = tuple[Any, int, Any, int]


def profile_ops(context: NativeContext, feeds: Feeds, log_level: int) -> None:
    """``rknn3_profile_ops``: the table goes to standard output, where the library writes it."""
    if log_level not in (0, 1, 2):
        raise ParamInvalid(f"log_level is {log_level}; 0 totals, 1 per operator, 2 with cycles and bandwidth")
    detail = "figures per operator need a model that was converted with profile_mode"
    check("rknn3_profile_ops", context.call("rknn3_profile_ops", *feeds, log_level), detail)


def dump_features(
    context: NativeContext, feeds: Feeds, directory: Path, core_mask: int, selector: str | None
) -> list[Path]:
    """``rknn3_dump_features`` into a folder, which is made; the ``.npy`` files in it afterwards."""
    more: tuple[Any, ...] = ()
    if len(context.abi.functions["rknn3_dump_features"].argtypes) > 6:
        more = (core_mask, selector.encode() if selector is not None else None)
    elif core_mask or selector is not None:
        raise ParamInvalid(
            f"core_mask and selector of a dump need runtime 1.0.4, this is {context.api.version}"
        )
    directory.mkdir(parents=True, exist_ok=True)
    code = context.call("rknn3_dump_features", *feeds, os.fsencode(directory), *more)
    check("rknn3_dump_features", code, f"is there room in {directory}?")
    return sorted(directory.glob("*.npy"))


def dump(context: NativeContext, feeds: Feeds, writer: DumpWriter, folder: Path) -> Dump:
    """What ``rknn3_dump_features`` writes, with the manifest of ``rknnlite_insight.dumps``; ``folder`` is the writer's.

    The library names a file by its tensor and tells nothing more: no node, no operator, no scale.
    """
    with tempfile.TemporaryDirectory(dir=folder) as rough:
        for path in sorted(dump_features(context, feeds, Path(rough), 0, None), key=_written):
            try:
                array = read_array(path)
            except (OSError, ValueError) as error:
                raise RknnError(f"the library wrote {path.name}, which is no array: {error}") from None
            writer.add(path.stem, array, dtype=array.dtype.name)
    return writer.close()


def _written(path: Path) -> tuple[int, str]:
    """Files in the order of computation, as far as the clock of the file system tells."""
    return path.stat().st_mtime_ns, path.name
