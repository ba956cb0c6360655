"""What the C libraries are made of, and what compiles them.

librknnrt.so, librknnmrt.so for RV1103 and RV1106, librknn_api.so for toolkits 1.x, librknn3_api.so for hosts of RK182x,
librkllmrt.so; what stands for libraries that programs for RV1103 and RV1106 use besides; and what plays a board to programs.

librkllmrt.so is compiled once for each layout of its API, by the name ``rkllm-VERSION/librkllmrt.so``.

Tools that have nothing but Python read this file by itself: it imports nothing of this project's.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

__all__ = [
    "BOARD_LIBRARIES", "CLIENT", "INCLUDE", "IN_ONE_FOLDER", "LIBRARIES", "LIBRARY", "MADE_OF", "MINI_LIBRARY", "PLAYED_LIBRARY",
    "RKLLM_INCLUDE", "RKLLM_LIBRARIES", "RKNN1_LIBRARY", "RKNN3_LIBRARY", "command", "digest", "files", "flags", "glibc_needed",
    "include_flags", "version_flag",
]  # fmt: skip

LIBRARY, MINI_LIBRARY, RKNN1_LIBRARY, RKNN3_LIBRARY = (
    "librknnrt.so",
    "librknnmrt.so",
    "librknn_api.so",
    "librknn3_api.so",
)
IN_ONE_FOLDER = (LIBRARY, MINI_LIBRARY, RKNN1_LIBRARY, RKNN3_LIBRARY)
BOARD_LIBRARIES = ("board/librockit.so", "board/libmpimmz.so", "board/librga.so")
"""What stands for libraries of boards, where a machine has none of them."""
PLAYED_LIBRARY = "played/played_board.so"
"""What is preloaded into programs that look for a board."""
CLIENT, INCLUDE, RKLLM_INCLUDE = (
    Path(__file__).with_name(name) for name in ("client", "include", "rkllm_include")
)
"""Sources of the libraries, and the headers that programs are compiled with; of librkllmrt.so a folder for each version."""
RKLLM_LIBRARIES = {
    version: f"rkllm-{version}/librkllmrt.so" for version in ("1.1.4", "1.2.0", "1.2.1b1", "1.2.3", "1.3.0")
}
"""Last version of a layout -> its library."""
LIBRARIES = (*IN_ONE_FOLDER, *BOARD_LIBRARIES, PLAYED_LIBRARY, *RKLLM_LIBRARIES.values())
_COMMON = CLIENT / "common"
_SOURCES = {
    LIBRARY: (_COMMON, CLIENT / "rknnrt", INCLUDE),
    MINI_LIBRARY: (_COMMON, CLIENT / "rknnrt", CLIENT / "rknnmrt", INCLUDE),
    RKNN1_LIBRARY: (_COMMON, CLIENT / "rknnrt", CLIENT / "rknn1", INCLUDE),
    RKNN3_LIBRARY: (_COMMON, CLIENT / "rknn3", INCLUDE),
    PLAYED_LIBRARY: (CLIENT / "played",),
    **{name: (CLIENT / room,) for name, room in zip(BOARD_LIBRARIES, ("mpi", "mpi", "rga"))},
    **{
        name: (_COMMON, CLIENT / "rkllm", RKLLM_INCLUDE / version)
        for version, name in RKLLM_LIBRARIES.items()
    },
}
"""Library -> the folders of its sources and headers; the last part of its name is its SONAME, too."""
_DEFINED = {
    MINI_LIBRARY: ("-DRKNN_MINI",),
    RKNN1_LIBRARY: ("-include", "renamed.h"),
    **{name: (f'-DRKLLM_VERSION="{version}"',) for version, name in RKLLM_LIBRARIES.items()},
}
MADE_OF = "made-of"
"""A file beside a library that comes with a wheel: ``digest`` of what it was compiled from."""
_FLAGS = ("-shared", "-fPIC", "-O2", "-fvisibility=hidden", "-pthread")


def flags(library: str = LIBRARY) -> tuple[str, ...]:
    """What compilers are told for a library."""
    return (*_FLAGS, f"-Wl,-soname,{Path(library).name}", *_DEFINED.get(library, ()))


def files(library: str = LIBRARY) -> list[Path]:
    """All that a compiler reads: sources, their headers, the public headers. No two have the same name."""
    return sorted(file for folder in _SOURCES[library] for file in folder.glob("*.[ch]"))


def include_flags(library: str = LIBRARY) -> list[str]:
    """Where a compiler finds the headers."""
    return [f"-I{folder}" for folder in _SOURCES[library]]


def digest() -> str:
    """SHA-256 of all files, as hexadecimal digits: a library made of others is not taken for this one."""
    whole = hashlib.sha256()
    for file in sorted({file for library in _SOURCES for file in files(library)}):
        content = file.read_bytes()
        whole.update(f"{file.name} {len(content)}\n".encode() + content)
    return whole.hexdigest()


def version_flag(version: str) -> str:
    """What puts the version of rknnlite into the library."""
    return f'-DRKNNLITE_VERSION="{version}"'


def command(compiler: Sequence[str], out: Path, version: str, library: str = LIBRARY) -> list[str]:
    """What compiles a library; ``compiler`` may bring flags of its own."""
    sources = [str(file) for file in files(library) if file.suffix == ".c"]
    told = (*flags(library), version_flag(version), *include_flags(library))
    return [*compiler, *told, "-o", str(out), *sources, "-ldl"]


def glibc_needed(file: Path) -> tuple[int, int]:
    """The oldest glibc that a library loads with, by the versions of the functions that it asks for; (0, 0): any."""
    found = re.findall(rb"\0GLIBC_(\d+)\.(\d+)", file.read_bytes())
    return max(((int(major), int(minor)) for major, minor in found), default=(0, 0))
