"""What compilers are told: flags, and files for pkg-config.

``python -m rknnlite_librknnrt.flags LIBRARY INCLUDE LIBDIR`` prints the file of a library, for packages.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Optional

from rknnlite_programs import buildcache

from rknnlite.files.writing import write_text

from .build import own_folder
from .headers import LIBRARIES, include_dir, pkg_config

__all__ = ["MINI_PACKAGE", "PACKAGE", "RKNN3_PACKAGE", "cflags", "libs", "write_pkg_config"]

PACKAGE, MINI_PACKAGE, RKNN3_PACKAGE = (f"{library}-rknnlite" for library in LIBRARIES)
"""The names that pkg-config knows the libraries by: not those of a vendor's files."""


def cflags(headers: Optional[Path] = None) -> str:
    """``-I`` of the headers (None: those of librknnrt.so, librknnmrt.so and librknn3_api.so), quoted for a shell."""
    return shlex.quote(f"-I{headers or include_dir()}")


def libs(library: Path) -> str:
    """``-L`` and ``-l`` of a library, quoted for a shell. No path is written into programs: they are to run on a board, too."""
    return f"{shlex.quote(f'-L{library.parent}')} -l{library.stem[3:]}"


def write_pkg_config(folder: Path) -> Path:
    """Write the files for the libraries in ``folder``; the folder that PKG_CONFIG_PATH shall name.

    Raises OSError, ParamInvalid.
    """
    place = own_folder() / "pkgconfig"
    buildcache.make_private(place)
    for package, library in zip((PACKAGE, MINI_PACKAGE, RKNN3_PACKAGE), LIBRARIES):
        write_text(place / f"{package}.pc", pkg_config(folder, library))
    return place


if __name__ == "__main__":
    sys.stdout.write(pkg_config(sys.argv[3], sys.argv[1], include=sys.argv[2]))
