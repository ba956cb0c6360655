"""What compilers are told: flags, and a file for pkg-config.

``python -m rknnlite_librknnrt.flags INCLUDE LIBDIR`` prints that file, for packages.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from rknnlite._version import __version__
from rknnlite.files.writing import write_text

from .build import own_folder
from .recipe import INCLUDE

__all__ = ["PACKAGE", "cflags", "libs", "pkg_config", "write_pkg_config"]

PACKAGE = "librknnrt-rknnlite"
"""The name that pkg-config knows it by: not the one of a vendor's file."""


def cflags() -> str:
    """``-I`` of the headers, quoted for a shell."""
    return shlex.quote(f"-I{INCLUDE}")


def libs(folder: Path) -> str:
    """``-L`` and ``-l``, quoted for a shell. No path is written into programs: they are to run on a board, too."""
    return f"{shlex.quote(f'-L{folder}')} -lrknnrt"


def pkg_config(include: Path, folder: Path) -> str:
    """The text of ``librknnrt-rknnlite.pc`` for headers and a library in these folders."""
    return f"""\
includedir={_escaped(include)}
libdir={_escaped(folder)}

Name: {PACKAGE}
Description: librknnrt.so of rknnlite: the C API of Rockchip NPUs on the CPU reference
Version: {__version__}
Cflags: -I${{includedir}}
Libs: -L${{libdir}} -lrknnrt
"""


def write_pkg_config(folder: Path) -> Path:
    """Write the file for a library in ``folder``; the folder that PKG_CONFIG_PATH shall name. Raises OSError."""
    place = own_folder() / "pkgconfig"
    place.mkdir(mode=0o700, exist_ok=True)
    write_text(place / f"{PACKAGE}.pc", pkg_config(INCLUDE, folder))
    return place


def _escaped(path: Path) -> str:
    """A path as pkg-config reads it back as one word."""
    return "".join(f"\\{char}" if char in " \t\\\"'#$" else char for char in str(path))


if __name__ == "__main__":
    sys.stdout.write(pkg_config(Path(sys.argv[1]), Path(sys.argv[2])))
