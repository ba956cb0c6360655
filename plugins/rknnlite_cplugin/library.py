"""Load an operator library and check what it offers, before anything of it is called.

This module and ``node`` also run in the worker process of isolated plugins.
"""

from __future__ import annotations

import ctypes as ct
import os
import platform
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rknnlite import buildcache
from rknnlite.abi import rknn_op as abi
from rknnlite.errors import BackendUnavailable, ParamInvalid
from rknnlite.log import logger

__all__ = ["Library", "is_elf", "open_library", "unsafe_reason"]

_RTLD_NOW = os.RTLD_NOW
_MACHINES = {3: "i386", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv"}
_ET_DYN = 3
_VERSION = 1
_SOURCE = Path(__file__).with_name("runtime_symbols.c")
_kept: list[Any] = []  # loaded with RTLD_GLOBAL once, for the life of the process


@dataclass(frozen=True)
class Library:
    """A checked plugin: the operator's structure lives inside the library, which ``handle`` keeps loaded."""

    path: Path
    op_type: str
    target: abi.Target
    struct: abi.CustomOpStruct = field(repr=False)
    handle: Any = field(repr=False)


def is_elf(path: Path) -> bool:
    """Whether a file is a shared library of this kind of format at all."""
    header = _header(path)
    return header[:4] == b"\x7fELF" and int.from_bytes(header[16:18], "little") == _ET_DYN


def _header(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(20)


def unsafe_reason(path: Path) -> str | None:
    """Why a library found in a folder (not named by the user) must not be loaded; None when it may."""
    for place in (path.resolve(), path.resolve().parent):
        if buildcache.writable_by_others(place):
            return f"{place} can be written by others than root; run chown root and chmod go-w on it"
    return None


def open_library(path: Path) -> Library:
    """Load and check a library.

    Raises ParamInvalid naming what is wrong: format, architecture, entry point, version, type, ``compute``.
    """
    _check_header(path)
    handle = _load(path)
    try:
        entry = getattr(handle, abi.ENTRY_POINT)
    except AttributeError:
        raise ParamInvalid(
            f"{path}: no function {abi.ENTRY_POINT}; it must be exported with C linkage and default visibility"
        ) from None
    entry.restype, entry.argtypes = ct.POINTER(abi.CustomOpStruct), []
    answer = entry()
    if not answer:
        raise ParamInvalid(f"{path}: {abi.ENTRY_POINT} answers NULL")
    return _checked(path, answer.contents, handle)


def _check_header(path: Path) -> None:
    try:
        theirs, ours = _header(path), _header(Path(sys.executable))
    except OSError as error:
        raise ParamInvalid(f"{path}: {error.strerror}") from None
    if theirs[:4] != b"\x7fELF" or len(theirs) < 20:
        raise ParamInvalid(f"{path}: not a shared library (no ELF header)")
    if ours[:4] == b"\x7fELF" and (theirs[4:6], theirs[18:20]) != (ours[4:6], ours[18:20]):
        number = int.from_bytes(theirs[18:20], "little")
        raise ParamInvalid(
            f"{path}: built for {_MACHINES.get(number, f'machine {number}')} ({32 * theirs[4]} bits), this Python "
            f"is {platform.machine()}; compile the plugin for this machine"
        )
    if int.from_bytes(theirs[16:18], "little") != _ET_DYN:
        raise ParamInvalid(f"{path}: an ELF file, but not a shared library; link it with -shared -fPIC")


def _load(path: Path) -> Any:
    """dlopen with whatever the plugin expects from its surroundings."""
    _supply("librknnlite_symbols.so")
    name = str(path.resolve())
    try:
        return ct.CDLL(name, mode=_RTLD_NOW)
    except OSError as error:
        text = str(error)
    if "librknnrt.so" in text and "cannot open" in text:
        _supply("librknnrt.so")  # linked against the runtime: a library of that name satisfies the loader
    elif "OpenCL" in text or "undefined symbol: cl" in text:
        from rknnlite import plugins

        try:
            plugins.gpu_services().preload()
        except BackendUnavailable as error:
            raise ParamInvalid(f"{path}: {text}; {error}") from None
    try:
        return ct.CDLL(name, mode=_RTLD_NOW)
    except OSError as error:
        raise ParamInvalid(f"{path}: cannot be loaded: {error}") from None


def _supply(name: str) -> None:
    """Load the library that exports ``rknn_custom_op_get_op_attr``, under one of its names."""
    if any(kept[0] == name for kept in _kept):
        return
    prebuilt = Path(__file__).with_name(name)
    try:
        library = prebuilt if prebuilt.is_file() else _build(name)
        _kept.append((name, ct.CDLL(str(library), mode=_RTLD_NOW | ct.RTLD_GLOBAL)))
    except (BackendUnavailable, ParamInvalid, OSError) as error:  # a plugin without attributes works without it
        logger.warning("operator plugins cannot read node attributes: %s", error)


def _build(name: str) -> Path:
    compiler = os.environ.get("CC") or "cc"
    command = [compiler, "-shared", "-fPIC", "-O2", f"-Wl,-soname,{name}", "-o", "{out}", _SOURCE.name]
    files = {_SOURCE.name: _SOURCE.read_bytes()}
    return buildcache.build(name, files, command, "the attribute access of operator plugins")


def _checked(path: Path, struct: abi.CustomOpStruct, handle: Any) -> Library:
    if struct.version != _VERSION:
        raise ParamInvalid(
            f"{path}: made for version {struct.version} of rknn_custom_op, this host knows version {_VERSION}; "
            "set version = 1 and compile against rknn_custom_op.h of 2.3.2"
        )
    raw = bytes(struct)[abi.CustomOpStruct.op_type.offset :][: abi.MAX_NAME]
    if b"\0" not in raw or not struct.op_type:
        raise ParamInvalid(f"{path}: op_type is {'not terminated' if raw[0] else 'empty'}")
    op_type = struct.op_type.decode("utf-8", "replace")
    if struct.target not in (abi.Target.CPU, abi.Target.GPU):
        raise ParamInvalid(f"{path}: operator {op_type} has target {struct.target}; 1 is the CPU, 2 the GPU")
    if not struct.compute:
        raise ParamInvalid(f"{path}: operator {op_type} has no compute function")
    return Library(path, op_type, abi.Target(struct.target), struct, handle)
