"""The host: links a plugin's object with the stub and hands it to a process."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from rknnlite_backend.abi import rknn3_op as abi
from rknnlite_programs import buildcache
from rknnlite_programs.childprocess import TIME_LIMIT, checked_limit

from rknnlite import config
from rknnlite.errors import BackendUnavailable, ContextInvalid, ParamInvalid
from rknnlite.files.reading import open_file, read_bytes
from rknnlite.native.processors import machine
from rknnlite.spi import OpHost, PostProcess, Probe
from rknnlite.tensor import TensorAttr

from .process import Process

__all__ = ["RiscvHost", "RiscvPostProcess"]

_RISCV, _ET_REL = 243, 1
_STUB = Path(__file__).with_name("stub.c")
_CPU = "rv64,v=true,vext_spec=v1.0"
_HALF = re.compile(r"undefined reference to `(__(extend|trunc)\w*hf\w*)'")
_PACKAGES = "gcc-riscv64-linux-gnu libc6-dev-riscv64-cross qemu-user"
_NATIVE = machine() == "riscv64"


def _compiler() -> str:
    return config.get("riscv_cc") or ("cc" if _NATIVE else "riscv64-linux-gnu-gcc")


def _emulator() -> list[str]:
    """Command in front of a RISC-V program; empty on a RISC-V machine."""
    if _NATIVE:
        return []
    found = shutil.which("qemu-riscv64") or shutil.which("qemu-riscv64-static")
    return [found or "qemu-riscv64", "-cpu", _CPU + (_half_precision(found) if found else "")]


@functools.lru_cache(maxsize=1)
def _half_precision(qemu: str) -> str:
    """How this emulator is told that the cores compute ``_Float16`` (Zfh): newer ones write extensions small."""
    told = subprocess.run([qemu, "--version"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"version (\d+)\.(\d+)", told)
    return ",Zfh=true" if version and tuple(map(int, version.groups())) < (8, 2) else ",zfh=true"


def _lacking() -> str | None:
    """Which tools are missing and what to install; None when all are there."""
    missing = [tool for tool in (_compiler(), *_emulator()[:1]) if shutil.which(tool) is None]
    if not missing:
        return None
    return f"{' and '.join(missing)} missing; install {'gcc' if _NATIVE else _PACKAGES}"


class RiscvHost(OpHost):
    """Runs post-process plugins made for the RISC-V cores of RK1820/RK1828."""

    name = "riscv"

    def probe(self) -> Probe:
        lacking = _lacking()
        if lacking:
            return Probe(False, lacking)
        return Probe(True, "post-process plugins of RK182x under " + (_emulator() or ["this CPU"])[0])

    def load_postprocess(self, path: Path, options: Mapping[str, Any]) -> PostProcess | None:
        """A relocatable RISC-V object; option ``time_limit``: seconds per call (10), None for no limit."""
        try:
            with open_file(path) as file:
                header = file.read(20)
        except OSError as error:
            raise ParamInvalid(f"{path}: {error.strerror}") from None
        if header[:4] != b"\x7fELF" or len(header) < 20:
            if path.suffix in (".so", ".o"):
                raise ParamInvalid(f"{path}: not an ELF object")
            return None
        kind, machine = (int.from_bytes(header[i : i + 2], "little") for i in (16, 18))
        if machine != _RISCV or header[4] != 2:
            raise ParamInvalid(
                f"{path}: built for machine {machine}; a post-process plugin is 64-bit RISC-V ({_RISCV}), and a "
                "compiled operator of the model goes into custom_ops"
            )
        if kind != _ET_REL:
            raise ParamInvalid(
                f"{path}: a linked file; a post-process plugin is a relocatable object: compile with -c, join several "
                "objects with ld -r"
            )
        unknown = set(options) - {"time_limit"}
        if unknown:
            raise ParamInvalid(f"{path}: unknown options {sorted(unknown)}; there is time_limit")
        return RiscvPostProcess(path, checked_limit(options.get("time_limit", TIME_LIMIT), path))


class RiscvPostProcess(PostProcess):
    """One plugin; the process is started by ``open`` and kept until ``close``."""

    def __init__(self, path: Path, time_limit: float | None) -> None:
        self._path = path
        self._limit = time_limit
        self._process: Process | None = None

    def open(self, inputs: Sequence[TensorAttr], outputs: Sequence[TensorAttr]) -> list[TensorAttr]:
        self.close()
        lacking = _lacking()
        if lacking:
            raise BackendUnavailable(f"post-process plugin {self._path}: {lacking}")
        command = [*_emulator(), str(self._program())]
        self._process = Process(self._path.name, command, inputs, outputs, self._limit)
        return list(self._process.results)

    def compute(self, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        if self._process is None:
            raise ContextInvalid(f"post-process plugin {self._path.name} is closed")
        return self._process.compute(arrays)

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.close()

    def _program(self) -> Path:
        """The plugin linked with the stub, from the cache when the same was linked before."""
        files = {"stub.c": _STUB.read_bytes(), "plugin.o": read_bytes(self._path)}
        command = [_compiler(), "-static", "-O2", "-o", "{out}", "stub.c", "plugin.o", "-lm"]
        try:
            return buildcache.build("postprocess", files, command, f"post-process plugin {self._path}")
        except ParamInvalid as error:
            if f"undefined reference to `{abi.REGISTER_FUNCTION}'" in str(error):
                raise ParamInvalid(
                    f"{self._path}: no function {abi.REGISTER_FUNCTION}(int); is it static, or compiled as C++?"
                ) from None
            if half := _HALF.search(str(error)):
                raise ParamInvalid(
                    f"{self._path}: converts _Float16 by {half[1]}, which the C library lacks; compile with "
                    "-march=rv64gc_zfh (GCC 13 or newer, or clang): the cores have instructions for that"
                ) from None
            raise
