"""What the C library is made of, and what compiles it.

Tools that have nothing but Python read this file by itself: it imports nothing of this project's.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

__all__ = [
    "CLIENT", "FLAGS", "INCLUDE", "LIBRARY", "MADE_OF", "command", "digest", "files", "glibc_needed", "version_flag",
]  # fmt: skip

LIBRARY = "librknnrt.so"
CLIENT, INCLUDE = (Path(__file__).with_name(name) for name in ("client", "include"))
"""Sources of the library, and the headers that programs are compiled with."""
MADE_OF = "made-of"
"""A file beside a library that comes with a wheel: ``digest`` of what it was compiled from."""
FLAGS = ("-shared", "-fPIC", "-O2", "-fvisibility=hidden", "-pthread", f"-Wl,-soname,{LIBRARY}")


def files() -> list[Path]:
    """All that a compiler reads: sources, their headers, the public headers."""
    return [file for folder in (CLIENT, INCLUDE) for file in sorted(folder.glob("*.[ch]"))]


def digest() -> str:
    """SHA-256 of all files, as hexadecimal digits: a library made of others is not taken for this one."""
    whole = hashlib.sha256()
    for file in files():
        content = file.read_bytes()
        whole.update(f"{file.name} {len(content)}\n".encode() + content)
    return whole.hexdigest()


def version_flag(version: str) -> str:
    """What puts the version of rknnlite into the library."""
    return f'-DRKNNLITE_VERSION="{version}"'


def command(compiler: Sequence[str], out: Path, version: str) -> list[str]:
    """What compiles the library; ``compiler`` may bring flags of its own."""
    sources = [str(file) for file in files() if file.suffix == ".c"]
    return [*compiler, *FLAGS, version_flag(version), f"-I{INCLUDE}", "-o", str(out), *sources, "-ldl"]


def glibc_needed(file: Path) -> tuple[int, int]:
    """The oldest glibc that a library loads with, by the versions of the functions that it asks for; (0, 0): any."""
    found = re.findall(rb"\0GLIBC_(\d+)\.(\d+)", file.read_bytes())
    return max(((int(major), int(minor)) for major, minor in found), default=(0, 0))
