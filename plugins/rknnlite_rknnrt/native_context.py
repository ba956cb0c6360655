"""``rknn_init`` and ``rknn_dup_context``: a number of the C API with an owner."""

from __future__ import annotations

import ctypes as ct
import os
from typing import Any

import numpy as np
from rknnlite_backend.library import is_file

from rknnlite import socs
from rknnlite.errors import ContextInvalid, ModelUnsupported, ParamInvalid
from rknnlite.formats import ModelFile
from rknnlite.log import logger
from rknnlite.spi.exclusive import CLOSED

from . import abi
from .diagnose import check_file, encrypted, init_error
from .errors import Native, check
from .loader import Library
from .settings import RknnrtSettings

__all__ = ["NativeContext"]


class NativeContext:
    """One ``rknn_context``: ``cell`` is its number as ctypes object, 0 as soon as it is destroyed.

    ``keep`` holds what C still points to; it lives until ``rknn_destroy`` has returned. ``native`` is the object
    that destroys it, which whatever lives inside the context (memory, duplicates) has for a parent.
    """

    def __init__(
        self, library: Library, cell: Any, guard: Any, parents: tuple[Any, ...], keep: list[Any]
    ) -> None:
        self.library = library
        self.cell = cell
        self.value: int = cell.value
        self.keep = keep
        args = (library.function("rknn_destroy"), cell, keep)
        self.native = Native(self.value, rknn_destroy, args, parents, guard)

    @classmethod
    def open(
        cls, library: Library, file: ModelFile, settings: RknnrtSettings, soc: socs.Soc | None, guard: Any
    ) -> NativeContext:
        """``rknn_init`` from the file's path or its bytes; raises the typed error with the likely cause."""
        _check_key(file, settings)
        file.check()
        check_file(file, library)
        cell, extend = abi.CONTEXT(0), abi.InitExtend()
        parents: tuple[Any, ...] = ()
        keep: list[Any] = []
        if settings.master is not None:
            master = getattr(settings.master, "session", None)
            if not isinstance(master, NativeContext) or settings.master.closed:
                raise ParamInvalid("master must be an open context of backend rknnrt")
            extend.ctx = master.value
            parents = (master.native,)
        if settings.model_in_npu_memory:
            from .memory import without_context

            memory = without_context(library, len(file.data))
            np.copyto(memory.ndarray, np.frombuffer(file.data, np.uint8))
            extend.model_buffer_fd, extend.model_buffer_flags = memory.fd, memory.flags
            extend.real_model_size = memory.size
            parents = (*parents, memory.native)
            where, size = memory.address, memory.size
        elif file.path is not None and is_file(file.path):
            path = ct.create_string_buffer(os.fsencode(file.path))
            where, size = ct.addressof(path), 0
            keep.append(path)
        else:
            content = np.frombuffer(file.data, np.uint8)
            where, size = content.ctypes.data if content.size else 0, content.size
            if not size:
                raise ParamInvalid(f"{file.label} is empty; copy it again")
        told = ct.byref(extend) if parents else None
        code = library.function("rknn_init")(ct.byref(cell), where, size, settings.init_flags, told)
        if code:
            raise init_error(code, file, library, soc)
        return cls(library, cell, guard, parents, keep)

    def duplicate(self, guard: Any) -> NativeContext:
        """``rknn_dup_context``; the original outlives its duplicates."""
        ours, theirs = abi.CONTEXT(self.value), abi.CONTEXT(0)
        code = self.library.function("rknn_dup_context")(ct.byref(ours), ct.byref(theirs))
        check("rknn_dup_context", code)
        return NativeContext(self.library, theirs, guard, (self.native,), [])

    def query(self, command: abi.Query, struct: ct.Structure) -> None:
        """``rknn_query``; raises the typed error naming the command."""
        if not self.native.alive:
            raise ContextInvalid(CLOSED)
        code = self.library.function("rknn_query")(self.value, command, ct.byref(struct), ct.sizeof(struct))
        check(f"rknn_query({command.name})", code)

    def release(self) -> None:
        """Destroy the context now, whoever still holds it."""
        self.native.release()

    def retire(self) -> None:
        """Destroy the context now if nothing is left inside, else when the last of that has gone."""
        self.native.retire()

    def disown(self) -> None:
        """Another process owns the context: never destroy it, and never pass its number to C."""
        self.native.disown()
        self.cell.value = 0


def rknn_destroy(function: Any, cell: Any, keep: list[Any]) -> int:
    """Destroy the context behind ``cell``; what C pointed to goes afterwards."""
    value, cell.value = cell.value, 0
    code: int = function(value)
    keep.clear()
    return code


def _check_key(file: ModelFile, settings: RknnrtSettings) -> None:
    if settings.user_key is None:
        return
    if encrypted(file):
        raise ModelUnsupported(
            f"{file.label} comes with a key file, but no public version of the runtime's C API names an entry that "
            "takes one; use the vendor's wheel for it, or export the model without a key"
        )
    logger.warning("%s is not encrypted: the key file is not needed and ignored", file.label)
