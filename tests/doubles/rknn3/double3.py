"""Builds the test double of librknn3_api and steers it: a real shared library, written in C, own code.

Models of the double are texts, see ``model.c``:

>>> cnn = model("input image uint8 nhwc 4 1 4 6 3", "output scores float32 undefined 2 1 10", "op affine 2 1")
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from tests.doubles.double import FLAGS, Double, compile_c

__all__ = ["Double3", "build", "model"]

HERE = Path(__file__).parent
NAME = "librknn3_api.so"


def build(version: str | None = None) -> Path:
    """The double's library with the structures of a runtime version: ``1.0.0``, or later ones for any other.

    ``version`` None: the environment variable ``RKNN3_DOUBLE_VERSION``, else 1.0.0. When the library is loaded it
    answers the version that this variable names, so that a library can lie about what it is.
    """
    version = version or os.environ.get("RKNN3_DOUBLE_VERSION") or "1.0.0"
    ready = os.environ.get("RKNN_DOUBLE_DIR")
    if ready:
        return Path(ready) / NAME
    extra = tuple(os.environ.get("RKNN_DOUBLE_CFLAGS", "").split())
    revision = () if version == "1.0.0" else ("-DLATER",)
    sources = [HERE.parent / "control.c", *sorted(HERE.glob("*.c"))]
    return compile_c(sources, (*FLAGS, "-include", str(HERE / "double3.h"), *revision, *extra), NAME)


def model(*lines: str) -> bytes:
    """The bytes of a model of the double."""
    return "\n".join(["RKNX DOUBLE 1", *lines, ""]).encode()


class Double3(Double):
    """The loaded double: faults, counters, and what is alive in it."""

    KINDS = ("contexts", "mems", "sessions", "threads", "images", "misordered", "races")

    def devices(self, count: int) -> None:
        """How many devices are plugged in; they are called ``pcie-0``, ``pcie-1``, ..."""
        self.lib.double3_devices(ctypes.c_int(count))
