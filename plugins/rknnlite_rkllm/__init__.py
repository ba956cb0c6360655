"""Backend for language models in ``.rkllm`` files: the vendor's ``librkllmrt.so`` by ctypes, in a process of its own."""

from __future__ import annotations

from collections.abc import Callable

from rknnlite import hookimpl
from rknnlite.spi import Backend
from rknnlite.spi.inspection import Inspector

__all__ = ["rknnlite_register_backends", "rknnlite_register_inspectors"]


@hookimpl
def rknnlite_register_backends(register: Callable[[Backend], None]) -> None:
    """Offer the backend ``rkllm``."""
    from .backend import RkllmBackend

    register(RkllmBackend())


@hookimpl
def rknnlite_register_inspectors(register: Callable[[Inspector], None]) -> None:
    """Offer what is known of ``.rkllm`` files."""
    from .inspection import RkllmInspector

    register(RkllmInspector())
