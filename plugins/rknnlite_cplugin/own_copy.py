"""The file that is really loaded of a plugin: a copy of our own, so that building the plugin again disturbs nobody.

The dynamic linker answers a path that it has loaded before with what it loaded then, and a file that is written over
while it is mapped ends the process. A copy per content, in the cache of built things, has neither fault. Plugins that
look for files beside themselves are loaded where they are; when such a file has changed, loading it again is refused.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from rknnlite_programs import buildcache

from rknnlite.errors import ParamInvalid
from rknnlite.files.reading import read_bytes
from rknnlite.log import logger

__all__ = ["in_place", "own_copy"]

_TIED_TO_ITS_PLACE = re.compile(rb"\$ORIGIN|\$\{ORIGIN\}|\0dladdr1?\0")
_in_place: dict[Path, str] = {}  # what was loaded under its own name, and its content then


def own_copy(path: Path) -> Path:
    """The file to load for this plugin as it is now.

    Raises ParamInvalid when it cannot be read, or changed after it was loaded where it is.
    """
    content = _content(path)
    if _TIED_TO_ITS_PLACE.search(content):
        return in_place(path)
    try:
        copy = buildcache.cache_dir() / hashlib.sha256(content).hexdigest()[:32] / path.name
        if buildcache.fetch(copy) != content:
            buildcache.keep(copy, content)
    except (OSError, ParamInvalid) as error:
        logger.debug("%s is loaded where it is: %s", path, error)
        return in_place(path)
    return copy


def in_place(path: Path) -> Path:
    """The plugin itself; raises ParamInvalid when it changed since it was loaded so."""
    real = path.resolve()
    digest = hashlib.sha256(_content(real)).hexdigest()
    if _in_place.setdefault(real, digest) != digest:
        raise ParamInvalid(
            f"{path} has changed since it was loaded, and this process would go on with the old code; start the "
            "program again, or give the new file another name"
        )
    return real


def _content(path: Path) -> bytes:
    try:
        return read_bytes(path)
    except OSError as error:
        raise ParamInvalid(f"{path}: {error.strerror}") from None
