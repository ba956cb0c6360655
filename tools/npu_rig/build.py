"""Compiles the rig's C parts with the compiler of a processor."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple, Optional

__all__ = ["PROCESSORS", "Processor", "built", "processor_of"]

HERE = Path(__file__).parent
_MACHINES = {62: "x86_64", 183: "arm64", 40: "armhf"}  # e_machine of ELF


class Processor(NamedTuple):
    """Who runs a program.

    Attributes:
        triple: of its compiler, and of the folder with its C library.
        qemu: what runs its programs on another processor.
    """

    name: str
    triple: str
    qemu: str

    @property
    def is_here(self) -> bool:
        """Whether this very machine is one."""
        return platform.machine() in (self.name, {"arm64": "aarch64", "armhf": "armv7l"}.get(self.name))

    @property
    def compiler(self) -> Optional[str]:
        """Its C compiler; None where there is none."""
        names = [os.environ.get("CC"), "gcc", "cc"] if self.is_here else [f"{self.triple}-gcc"]
        return next((found for name in names if name for found in [shutil.which(name)] if found), None)

    def running(self, command: list[str], environment: dict[str, str]) -> tuple[list[str], dict[str, str]]:
        """How a program of its is started here: a command, and further environment. Raises FileNotFoundError without qemu."""
        if self.is_here:
            return command, environment
        qemu = shutil.which(self.qemu) or shutil.which(f"{self.qemu}-static")
        if qemu is None:
            raise FileNotFoundError(f"no {self.qemu}: apt-get install qemu-user")
        given = [word for name, value in environment.items() for word in ("-E", f"{name}={value}")]
        return [qemu, "-L", f"/usr/{self.triple}", *given, *command], {}


PROCESSORS = {
    found.name: found
    for found in (
        Processor("x86_64", "x86_64-linux-gnu", "qemu-x86_64"),
        Processor("arm64", "aarch64-linux-gnu", "qemu-aarch64"),
        Processor("armhf", "arm-linux-gnueabihf", "qemu-arm"),
    )
}


def processor_of(library: Path) -> Processor:
    """Whose a compiled file is; raises ValueError for what is none."""
    with library.open("rb") as file:
        header = file.read(20)
    name = _MACHINES.get(int.from_bytes(header[18:20], "little")) if header[:4] == b"\x7fELF" else None
    if name is None:
        raise ValueError(f"{library} is no library for {', '.join(PROCESSORS)}")
    return PROCESSORS[name]


def built(source: str, processor: Processor) -> Path:
    """``preload.c`` as a library, another source as a program; kept until the source changes.

    Raises FileNotFoundError without a compiler, subprocess.CalledProcessError.
    """
    if processor.compiler is None:
        raise FileNotFoundError(f"no C compiler for {processor.name}: apt-get install gcc-{processor.triple}")
    content = b"".join((HERE / name).read_bytes() for name in (source, "rknpu_abi.h"))
    digest = hashlib.sha256(content + processor.compiler.encode()).hexdigest()[:16]
    shared = ["-shared", "-fPIC"] if source == "preload.c" else []
    folder = Path(tempfile.gettempdir()) / f"rknnlite-rig-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    out = folder / f"{Path(source).stem}-{processor.name}-{digest}{'.so' if shared else ''}"
    if not out.exists():
        part = out.with_name(f".{out.name}.{os.getpid()}")
        flags = [
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
            *shared,
            "-o",
            str(part),
            str(HERE / source),
            "-ldl",
            "-lpthread",
        ]
        subprocess.run([processor.compiler, *flags], check=True)
        part.replace(out)
    return out
