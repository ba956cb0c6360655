"""What compilers are told: flags, and a file for pkg-config.

``python -m rknnlite_librknnrt.flags INCLUDE LIBDIR`` prints that file, for packages.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from rknnlite.files.writing import write_text

from .build import own_folder
from .headers import include_dir, pkg_config

__all__ = ["PACKAGE", "cflags", "libs", "write_pkg_config"]

PACKAGE = "librknnrt-rknnlite"
"""The name that pkg-config knows it by: not the one of a vendor's file."""


def cflags() -> str:
    """``-I`` of the headers, quoted for a shell."""
    return shlex.quote(f"-I{include_dir()}")


def libs(folder: Path, rknn3: bool = False) -> str:
    """``-L`` and ``-l``, quoted for a shell. No path is written into programs: they are to run on a board, too."""
    return f"{shlex.quote(f'-L{folder}')} -l{'rknn3_api' if rknn3 else 'rknnrt'}"


def write_pkg_config(folder: Path) -> Path:
    """Write the file for a library in ``folder``; the folder that PKG_CONFIG_PATH shall name.

    Raises OSError, ParamInvalid.
    """
    place = own_folder() / "pkgconfig"
    place.mkdir(mode=0o700, exist_ok=True)
    write_text(place / f"{PACKAGE}.pc", pkg_config(folder))
    return place


if __name__ == "__main__":
    sys.stdout.write(pkg_config(sys.argv[2], include=sys.argv[1]))
