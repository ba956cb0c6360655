"""Load an operator library and check what it offers, before anything of it is called.

This module and ``node`` also run in the worker process of isolated plugins.
"""

from __future__ import annotations

import ctypes as ct
import os
import platform
import struct
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rknnlite import buildcache
from rknnlite.abi import rknn_op as abi
from rknnlite.errors import BackendUnavailable, ParamInvalid
from rknnlite.log import logger

__all__ = ["Library", "is_elf", "open_library", "symbols", "unsafe_reason"]

_RTLD_NOW = os.RTLD_NOW
_MACHINES = {3: "i386", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv"}
_ET_DYN, _PT_LOAD = 3, 1
_VERSION = 1
_SOURCE = Path(__file__).with_name("runtime_symbols.c")
_SYMBOLS = "librknnlite_symbols.so"
_GET_ATTR = b"rknn_custom_op_get_op_attr"
_kept: dict[str, Any] = {}  # loaded with RTLD_GLOBAL once, for the life of the process


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
    if not _complete(path):
        raise ParamInvalid(f"{path}: the file ends before its contents do; copy or build it again")


def _complete(path: Path) -> bool:
    """Whether the parts that get mapped lie inside the file; the loader maps what is missing and crashes."""
    wide = _header(path)[4] == 2
    fields = struct.Struct("<IIQQQQ" if wide else "<IIIIII")  # 64 bits: type, flags, offset, -, -, size
    where, count = (("<Q", 32), 56) if wide else (("<I", 28), 44)
    size = path.stat().st_size
    with path.open("rb") as file:
        header = file.read(64)
        if len(header) < 52:
            return False
        start = struct.unpack_from(where[0], header, where[1])[0]
        entry_size, entries = struct.unpack_from("<HH", header, count - 2)
        for number in range(entries):
            file.seek(start + number * entry_size)
            raw = file.read(fields.size)
            if len(raw) < fields.size:
                return False
            entry = fields.unpack(raw)
            offset, length = (entry[2], entry[5]) if wide else (entry[1], entry[4])
            if entry[0] == _PT_LOAD and offset + length > size:
                return False
    return True


def _load(path: Path) -> Any:
    """dlopen with whatever the plugin expects from its surroundings."""
    _supply(_SYMBOLS)
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
        why = (
            f"; {_GET_ATTR.decode()} needs a C compiler here (gcc)"
            if _GET_ATTR.decode() in str(error)
            else ""
        )
        raise ParamInvalid(f"{path}: cannot be loaded: {error}{why}") from None


def _supply(name: str) -> None:
    """Load the library that exports ``rknn_custom_op_get_op_attr``, under one of its names."""
    if name in _kept:
        return
    prebuilt = Path(__file__).with_name(name)
    try:
        library = prebuilt if prebuilt.is_file() else _build(name)
        loaded = ct.CDLL(str(library), mode=_RTLD_NOW | ct.RTLD_GLOBAL)
        for function in (loaded.rknnlite_op_announce, loaded.rknnlite_op_withdraw):
            function.argtypes = [ct.c_size_t]
        _kept[name] = loaded
    except (BackendUnavailable, ParamInvalid, OSError) as error:
        # A plugin that reads no attributes works without.
        logger.warning("operator plugins cannot read node attributes: %s", error)


def symbols(library: Library) -> Any:
    """The library by which a plugin reads attributes; None where there is none and the plugin reads none.

    Raises BackendUnavailable when the plugin needs it: the genuine runtime would take our nodes for its own.
    """
    loaded = _kept.get(_SYMBOLS)
    if loaded is None and _GET_ATTR in library.path.read_bytes():
        raise BackendUnavailable(f"{library.path} reads node attributes; that needs a C compiler here (gcc)")
    return loaded


def _build(name: str) -> Path:
    compiler = os.environ.get("CC") or "cc"
    command = [
        compiler,
        "-shared",
        "-fPIC",
        "-O2",
        f"-Wl,-soname,{name}",
        "-o",
        "{out}",
        _SOURCE.name,
        "-ldl",
        "-pthread",
    ]
    files = {_SOURCE.name: _SOURCE.read_bytes()}
    return buildcache.build(name, files, command, "the attribute access of operator plugins")


def _checked(path: Path, op: abi.CustomOpStruct, handle: Any) -> Library:
    if op.version != _VERSION:
        raise ParamInvalid(
            f"{path}: made for version {op.version} of rknn_custom_op, this host knows version {_VERSION}; "
            "set version = 1 and compile against rknn_custom_op.h of 2.3.2"
        )
    raw = bytes(op)[abi.CustomOpStruct.op_type.offset :][: abi.MAX_NAME]
    if b"\0" not in raw or not op.op_type:
        raise ParamInvalid(f"{path}: op_type is {'not terminated' if raw[0] else 'empty'}")
    op_type = op.op_type.decode("utf-8", "replace")
    if op.target not in (abi.Target.CPU, abi.Target.GPU):
        raise ParamInvalid(f"{path}: operator {op_type} has target {op.target}; 1 is the CPU, 2 the GPU")
    if not op.compute:
        raise ParamInvalid(f"{path}: operator {op_type} has no compute function")
    return Library(path, op_type, abi.Target(op.target), op, handle)
