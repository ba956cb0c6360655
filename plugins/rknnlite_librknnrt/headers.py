"""Where the C headers are, and what ``pkg-config`` is told about the libraries."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Optional

from rknnlite.errors import ParamInvalid

__all__ = ["LIBRARIES", "include_dir", "pkg_config", "rkllm_include_dir", "rknn1_include_dir"]

LIBRARIES = ("librknnrt", "librknnmrt", "librknn3_api")
"""Names of the pkg-config files, without ``.pc``."""


def include_dir() -> Path:
    """The folder with ``rknn_api.h``, ``rknn_matmul_api.h``, ``rknn_custom_op.h`` and ``rknn3_api.h``, for ``-I``."""
    return Path(__file__).with_name("include")


def rknn1_include_dir() -> Path:
    """The folder with the ``rknn_api.h`` of toolkits 1.x, whose name is that of the later one."""
    return Path(__file__).with_name("rknn1_include")


def rkllm_include_dir(version: str) -> Path:
    """The folder with ``rkllm.h`` of a version."""
    return Path(__file__).with_name("rkllm_include") / version


def pkg_config(
    folder: os.PathLike[str] | str,
    library: str = LIBRARIES[0],
    include: Optional[os.PathLike[str] | str] = None,
) -> str:
    r"""Text of ``LIBRARY.pc`` for the library that lies in ``folder``; its headers lie in ``include`` (default: ours).

    Raises ParamInvalid for a library of another name, and for a path that a pkg-config file cannot hold: one with
    ``"``, ``$``, ``\`` or a line break.
    """
    if library not in LIBRARIES:
        raise ParamInvalid(f"there is no pkg-config file of {library!r}; there are {', '.join(LIBRARIES)}")
    text = Path(__file__).with_name("pkgconfig").joinpath(f"{library}.pc.in").read_text(encoding="utf-8")
    places = {"@LIBDIR@": folder, "@INCLUDEDIR@": include_dir() if include is None else include}
    for word, place in places.items():
        text = text.replace(word, _plain(str(Path(place).absolute())))
    return text


def _plain(path: str) -> str:
    odd = sorted({sign for sign in '"$\\\n\r' if sign in path})
    if odd:
        signs = ", ".join(map(repr, odd))
        raise ParamInvalid(
            f"a pkg-config file cannot hold {signs}, which {path!r} has; choose another folder"
        )
    return path
