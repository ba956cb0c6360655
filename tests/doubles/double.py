"""Builds the test double of librknnrt and steers it: a real shared library, written in C, own code.

Models of the double are texts, see ``model.c``:

>>> text = model("input image int8 4 1 4 6 3 0.5 -3", "output scores int8 2 1 10 0.25 5", "op affine 2 1")
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

__all__ = ["Double", "build", "compile_c", "model", "own_library"]

HERE = Path(__file__).parent
SOURCES = sorted(HERE.glob("*.c"))
FLAGS = ("-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-fPIC", "-fvisibility=hidden", "-shared")


def compiler() -> str | None:
    """The C compiler: ``CC``, else gcc or cc."""
    return os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc")


def own_library(name: str, marker: str, functions: Iterable[str]) -> Path:
    """A stand-in for rknnlite's own library of version 9.8.7, from the cache where that one is built, too."""
    from rknnlite_programs import buildcache

    from tests.support.needs import needs

    needs("gcc")
    text = f'const char {marker}[] = "9.8.7";' + "".join(f"int {f}(void) {{ return -1; }}" for f in functions)
    command = [compiler() or "cc", "-shared", "-fPIC", "-o", "{out}", "own.c"]
    return buildcache.build(name, {"own.c": text.encode()}, command, "the stand-in")


def compile_c(sources: list[Path], flags: tuple[str, ...], name: str, cc: str | None = None) -> Path:
    """Compile once per content, compiler and flags; results are kept in the temporary directory."""
    cc = cc or compiler()
    if cc is None:
        raise RuntimeError("no C compiler: apt-get install gcc, or set CC")
    digest = hashlib.sha256(" ".join([cc, platform.machine(), name, *flags]).encode())
    for path in sorted([*sources, *HERE.rglob("*.h")]):
        digest.update(path.read_bytes())
    folder = Path(tempfile.gettempdir()) / f"rknnlite-native-{os.getuid()}" / digest.hexdigest()[:16]
    target = folder / name
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as work:
            made = Path(work) / name
            command = [
                *cc.split(),
                *flags,
                "-I",
                str(HERE),
                "-o",
                str(made),
                *map(str, sources),
                "-lm",
                "-lpthread",
            ]
            subprocess.run(command, check=True)
            made.replace(target)
    return target


def build(mini: bool = False, defines: tuple[str, ...] = ()) -> Path:
    """The double's library: ``librknnrt.so``, or ``librknnmrt.so`` without masks and custom operators.

    ``defines`` make variants: ``VERSION="1.4.0"``.
    ``RKNN_DOUBLE_DIR`` names a folder with libraries that were built before (cross-compiled ones, say), and
    ``RKNN_DOUBLE_CFLAGS`` adds flags such as ``-fsanitize=address``.
    """
    name = "librknnmrt.so" if mini else "librknnrt.so"
    ready = os.environ.get("RKNN_DOUBLE_DIR")
    if ready and not defines:
        return Path(ready) / name
    extra = (*_for_arm(), *os.environ.get("RKNN_DOUBLE_CFLAGS", "").split())
    kind = ("-DMINI",) if mini else ()
    return compile_c(
        SOURCES, (*FLAGS, f"-Wl,-soname,{name}", *kind, *(f"-D{d}" for d in defines), *extra), name
    )


def _for_arm() -> tuple[str, ...]:
    """What 32-bit ARM needs to know float16; elsewhere it is there."""
    target = os.environ.get("CC") or platform.machine()
    return ("-mfp16-format=ieee",) if target.startswith(("arm-linux", "armv")) else ()


def model(*lines: str) -> bytes:
    """The bytes of a model of the double."""
    return "\n".join(["RKDOUBLE 1", *lines, ""]).encode()


class Double:
    """The loaded double: faults, counters, and what is alive in it."""

    KINDS = ("contexts", "mems", "outputs", "ops", "misordered", "races")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lib = ctypes.CDLL(str(path))
        self.lib.double_count.restype = self.lib.double_copied.restype = ctypes.c_long

    def fault(self, function: str, code: int, nth: int = 1) -> None:
        """Let the nth call from now (1: the next) answer ``code``, once."""
        self.lib.double_fault(function.encode(), nth, code)

    def short(self, function: str, nth: int = 1) -> None:
        """Let the nth call from now deliver less than it should, once."""
        self.lib.double_short(function.encode(), nth)

    def latency(self, microseconds: int) -> None:
        """Time that a run takes in addition to what the model says."""
        self.lib.double_latency(microseconds)

    def delay(self, function: str, microseconds: int) -> None:
        """Time that every call of a function takes in addition."""
        self.lib.double_delay(function.encode(), microseconds)

    def flags(self) -> int:
        """Flags of the last ``rknn_init``."""
        return int(self.lib.double_flags())

    def registered(self) -> int:
        """Number of operators in the last ``rknn_register_custom_ops``."""
        return int(self.lib.double_registered())

    def count(self, function: str) -> int:
        """Calls since ``reset``."""
        return int(self.lib.double_count(function.encode()))

    def copied(self) -> int:
        """Bytes of inputs and outputs that calls copied since ``reset``."""
        return int(self.lib.double_copied())

    def reset(self) -> None:
        """Forget faults and counts."""
        self.lib.double_reset()

    def live(self) -> dict[str, int]:
        """What was created and not given back, by kind; kinds with 0 are left out."""
        counts = {kind: self.lib.double_live(kind.encode()) for kind in self.KINDS}
        return {kind: count for kind, count in counts.items() if count}


if __name__ == "__main__":  # double.py FOLDER, with CC: libraries for another machine
    for mini in (False, True):
        shutil.copy(build(mini), sys.argv[1])
