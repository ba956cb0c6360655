"""Matrix products of the NPU without a model: ``rknnlite.Matmul``, and the layouts of its matrices in memory."""

from __future__ import annotations

from .matmul import Matmul, legacy_matmul

__all__ = ["Matmul", "legacy_matmul"]
