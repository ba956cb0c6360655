"""``rknn_init`` and ``rknn_init2``: a number of the C API with an owner."""

from __future__ import annotations

import ctypes as ct
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ContextInvalid, ParamInvalid
from rknnlite.formats import ModelFile
from rknnlite.spi.exclusive import CLOSED

from . import abi
from .errors import Native, check
from .loader import Library
from .settings import Rknn1rtSettings

__all__ = ["NativeContext"]


class NativeContext:
    """One ``rknn_context``; ``native`` destroys it, which whatever lives inside has for a parent."""

    def __init__(self, library: Library, value: int, guard: Any, keep: list[Any]) -> None:
        self.library, self.value = library, value
        self.native = Native(value, rknn_destroy, (library.function("rknn_destroy"), value, keep), (), guard)

    @classmethod
    def open(cls, library: Library, file: ModelFile, settings: Rknn1rtSettings, guard: Any) -> NativeContext:
        """Open the model's bytes; raises the typed error of what the library answers."""
        cell = abi.context_type(library.flavour)(0)
        model, size = _on_device(file) if settings.load_model_in_npu else _bytes_of(file)
        given = (ct.byref(cell), model.ctypes.data, size, settings.init_flags)
        if settings.device_id is None:
            check("rknn_init", library.function("rknn_init")(*given))
            return cls(library, cell.value, guard, [model])
        extend = abi.InitExtend(settings.device_id.encode())
        code = library.function("rknn_init2")(*given, ct.byref(extend))
        check("rknn_init2", code, f"device {settings.device_id!r} is not there" if code == -3 else "")
        return cls(library, cell.value, guard, [model, extend])

    def query(self, command: abi.Query, struct: ct.Structure) -> None:
        """``rknn_query``; raises the typed error naming the command."""
        if not self.native.alive:
            raise ContextInvalid(CLOSED)
        code = self.library.function("rknn_query")(self.value, command, ct.byref(struct), ct.sizeof(struct))
        check(f"rknn_query({command.name})", code)


def rknn_destroy(function: Any, value: int, keep: list[Any]) -> int:
    """Destroy the context; what C pointed to goes afterwards."""
    code: int = function(value)
    keep.clear()
    return code


def _bytes_of(file: ModelFile) -> tuple[NDArray[np.uint8], int]:
    """A copy of the model that C may read and write as long as the context lives: nobody says when it is done with it."""
    file.check()
    size = len(file.data)
    if not size:
        raise ParamInvalid(f"{file.label} is empty; copy it again")
    model = np.frombuffer(file.data, np.uint8).copy()
    file.drop_pages()
    return model, size


def _on_device(file: ModelFile) -> tuple[NDArray[np.uint8], int]:
    """The path of a model that lies on the device."""
    if file.path is None:
        raise ParamInvalid("load_model_in_npu takes the path of a model on the device, bytes were given")
    path = os.fsencode(file.path)
    return np.frombuffer(path + b"\0", np.uint8).copy(), len(path)
