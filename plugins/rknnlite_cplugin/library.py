"""Load an operator library and check what it offers, before anything of it is called.

This module and ``node`` also run in the worker process of isolated plugins.
"""

from __future__ import annotations

import ctypes as ct
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rknnlite_backend.crash import caller
from rknnlite_backend.elf import ElfInvalid, Kind, Machine, check_contents, of_this_python, read_header
from rknnlite_programs import buildcache

from rknnlite.abi import rknn_op as abi
from rknnlite.errors import BackendUnavailable, ParamInvalid
from rknnlite.files.reading import read_bytes
from rknnlite.log import logger

from .own_copy import in_place, own_copy
from .trial import try_loading

__all__ = ["Library", "file_to_load", "is_elf", "name_runtime", "open_library", "symbols", "unsafe_reason"]

_VERSION = 1
_SOURCE = Path(__file__).with_name("runtime_symbols.c")
_SYMBOLS = "librknnlite_symbols.so"
_GET_ATTR = b"rknn_custom_op_get_op_attr"
_kept: dict[str, Any] = {}  # loaded with RTLD_GLOBAL once, for the life of the process


@dataclass(frozen=True)
class Library:
    """A checked plugin: the operator's structure lives inside the library, which ``handle`` keeps loaded.

    ``path`` is what was named, ``file`` what was loaded: a copy of it.
    """

    path: Path
    file: Path
    op_type: str
    target: abi.Target
    struct: abi.CustomOpStruct = field(repr=False)
    handle: Any = field(repr=False)


def is_elf(path: Path) -> bool:
    """Whether a file is a shared library of this kind of format at all; False when it cannot be read."""
    try:
        return read_header(path).kind == Kind.SHARED
    except (ElfInvalid, OSError):
        return False


def unsafe_reason(path: Path) -> str | None:
    """Why a library found in a folder (not named by the user) must not be loaded; None when it may."""
    real = path.resolve()
    for place in (real, real.parent, path.parent):
        if buildcache.writable_by_others(place):
            return f"{place} can be written by others than root; run chown root and chmod go-w on it"
    return None


def file_to_load(path: Path) -> Path:
    """What to load of a library: see ``own_copy``. Raises ParamInvalid for another format or architecture."""
    _check_header(path)
    return own_copy(path)


def open_library(path: Path, file: Path | None = None) -> Library:
    """Load and check a library; ``file`` is what ``file_to_load`` answered, to another process perhaps.

    Raises ParamInvalid naming what is wrong: format, architecture, entry point, version, type, ``compute``.
    """
    file, handle = _load(path, file or file_to_load(path))
    try:
        entry = getattr(handle, abi.ENTRY_POINT)
    except AttributeError:
        raise ParamInvalid(
            f"{path}: no function {abi.ENTRY_POINT}; it must be exported with C linkage and default visibility"
        ) from None
    entry.restype, entry.argtypes = ct.POINTER(abi.CustomOpStruct), []
    answer = caller(f"plugin {path}", abi.ENTRY_POINT)(entry)
    if not answer:
        raise ParamInvalid(f"{path}: {abi.ENTRY_POINT} answers NULL")
    return _checked(path, file, answer.contents, handle)


def _check_header(path: Path) -> None:
    try:
        theirs, ours = read_header(path), of_this_python()
        if (theirs.machine, theirs.kind) == (Machine.RISCV, Kind.OBJECT):
            raise ParamInvalid(f"{path}: an object for the RISC-V cores of RK182x; pass it as postprocess")
        if not theirs.fits(ours):
            raise ParamInvalid(
                f"{path}: built for {theirs.processor}, this Python is {ours.processor}; compile the plugin for this machine"
            )
        if theirs.kind != Kind.SHARED:
            raise ParamInvalid(f"{path}: an ELF file, but not a shared library; link it with -shared -fPIC")
        check_contents(path)
    except OSError as error:
        raise ParamInvalid(f"{path}: {error.strerror}") from None
    except ElfInvalid as error:
        raise ParamInvalid(f"{path}: {error}") from None


def _load(path: Path, file: Path) -> tuple[Path, Any]:
    """dlopen with whatever the plugin expects from its surroundings; answers the file that was loaded, too."""
    _supply(_SYMBOLS)
    remedies = {_supply_runtime: r"librknnrt\.so.*cannot open", _supply_opencl: r"OpenCL|symbol: cl"}
    while True:
        try:
            try_loading(path, file, [library._name for library in _kept.values()])
            return file, caller(f"plugin {path}", "loading the library")(ct.CDLL, str(file), os.RTLD_NOW)
        except (OSError, UnicodeDecodeError) as error:  # what the linker says may hold names of the file
            text = str(error).replace(str(file), str(path))
        # no programs may run in the cache folder
        if "failed to map segment" in text and file != path.resolve():
            file = in_place(path)
            continue
        remedy = next((remedy for remedy, symptom in remedies.items() if re.search(symptom, text)), None)
        if remedy is None:
            if _GET_ATTR.decode() in text:
                text += f"; {_GET_ATTR.decode()} needs a C compiler here (gcc)"
            raise ParamInvalid(f"{path}: cannot be loaded: {text}")
        del remedies[remedy]
        try:
            remedy()
        except BackendUnavailable as error:
            raise ParamInvalid(f"{path}: {text}; {error}") from None


def _supply_runtime() -> None:
    """For a plugin that is linked against the runtime: a library of that name satisfies the loader."""
    _supply("librknnrt.so")


def _supply_opencl() -> None:
    from rknnlite import plugins

    plugins.gpu_services().preload()


def _supply(name: str) -> None:
    """Load the library that exports ``rknn_custom_op_get_op_attr``, under one of its names."""
    if name in _kept:
        return
    prebuilt = Path(__file__).with_name(name)
    try:
        library = prebuilt if prebuilt.is_file() else _built(name)
        loaded = ct.CDLL(str(library), mode=os.RTLD_NOW | ct.RTLD_GLOBAL)
        for function in (loaded.rknnlite_op_announce, loaded.rknnlite_op_withdraw):
            function.argtypes = [ct.c_size_t]
        loaded.rknnlite_op_runtime.argtypes = [ct.c_void_p, ct.c_void_p]
        _kept[name] = loaded
    except (BackendUnavailable, ParamInvalid, OSError) as error:
        # A plugin that reads no attributes works without.
        logger.warning("operator plugins cannot read node attributes: %s", error)


def _built(name: str) -> Path:
    purpose = "the attribute access of operator plugins"
    return buildcache.build_library(name, _SOURCE, purpose, f"-Wl,-soname,{name}")


def symbols(library: Library) -> Any:
    """The library by which a plugin reads attributes; None where there is none and the plugin reads none.

    Raises BackendUnavailable when the plugin needs it: the genuine runtime would take our nodes for its own.
    """
    loaded = _kept.get(_SYMBOLS)
    if loaded is None and _GET_ATTR in read_bytes(library.file):
        raise BackendUnavailable(f"{library.path} reads node attributes; that needs a C compiler here (gcc)")
    return loaded


def name_runtime(runtime: ct.CDLL) -> None:
    """From now on what plugins ask about nodes that are not ours goes to this librknnrt."""
    functions = (getattr(runtime, name, None) for name in (_GET_ATTR.decode(), "rknn_mem_sync"))
    addresses = [ct.cast(function, ct.c_void_p) if function else None for function in functions]
    for loaded in _kept.values():
        loaded.rknnlite_op_runtime(*addresses)


def _checked(path: Path, file: Path, op: abi.CustomOpStruct, handle: Any) -> Library:
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
    return Library(path, file, op_type, abi.Target(op.target), op, handle)
