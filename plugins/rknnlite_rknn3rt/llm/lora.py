"""What runtimes from 1.0.4 on add to a language model: adapters, cache groups, weights in pieces."""

from __future__ import annotations

import abc
import ctypes as ct
import os
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from rknnlite.abi.rknn3_llm import RKNN3Lora
from rknnlite.errors import ParamInvalid

from ..errors import check
from ..native_context import NativeContext

__all__ = ["LoraAdapters", "lora_struct"]

_ACTIONS = ("load", "unload", "enable", "disable")
_NAME_LENGTH = 255


def lora_struct(name: str, scale: float) -> RKNN3Lora:
    """An adapter by its name; raises ParamInvalid."""
    encoded = name.encode()
    if not 0 < len(encoded) <= _NAME_LENGTH:
        raise ParamInvalid(f"adapter name {name!r} must have 1 to {_NAME_LENGTH} bytes")
    return RKNN3Lora(encoded, scale)


class LoraAdapters(abc.ABC):
    """Calls on a context; a runtime that lacks one raises FunctionMissing."""

    @abc.abstractmethod
    def _need(self) -> NativeContext:
        """The context of the C API."""

    @abc.abstractmethod
    def _held(self) -> AbstractContextManager[Any]:
        """Hold the model for a call."""

    def _do(self, function: str, *args: Any) -> None:
        with self._held():
            check(function, self._need().call(function, *args))

    def init_loras(self, source: str | os.PathLike[str] | bytes) -> None:
        """Make the adapters of a file (or its bytes) known."""
        if isinstance(source, bytes):
            self._do("rknn3_lora_init_from_data", source, len(source))
        else:
            self._do("rknn3_lora_init", os.fsencode(source))

    def lora(self, action: str, name: str, scale: float = 1.0) -> None:
        """``load``, ``unload``, ``enable`` or ``disable`` an adapter."""
        if action not in _ACTIONS:
            raise ParamInvalid(f"adapters can be told to {', '.join(_ACTIONS)}, not {action!r}")
        self._do(f"rknn3_lora_{action}", ct.byref(lora_struct(name, scale)))

    def load_weight_chunk(self, offset: int, data: Any) -> None:
        """Hand over weights in pieces: bytes from ``offset`` of the weight file."""
        piece = np.frombuffer(data, np.uint8)
        if offset < 0 or not piece.size:
            raise ParamInvalid(f"{piece.size} bytes of weights at offset {offset}")
        self._do("rknn3_load_weight_chunk", offset, piece.ctypes.data, piece.size)

    def set_kvcache_group(self, group: int) -> None:
        """Choose a length of the KV cache among those that the model was converted for."""
        self._do("rknn3_set_kvcache_group", group)

    def set_input_name_alias(self, source: str, target: str) -> None:
        """Let an input answer to another name."""
        self._do("rknn3_set_input_name_alias", source.encode(), target.encode())
