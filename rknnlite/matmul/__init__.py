"""Matrix products of the NPU without a model: ``rknnlite.Matmul``, and the layouts of its matrices in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .matmul import Matmul

if TYPE_CHECKING:
    from .legacy import legacy_matmul

__all__ = ["Matmul", "legacy_matmul"]


def __getattr__(name: str) -> Any:
    """``legacy_matmul``, the product of the first generation, is loaded when somebody asks for it."""
    if name == "legacy_matmul":
        from .legacy import legacy_matmul

        return legacy_matmul
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
