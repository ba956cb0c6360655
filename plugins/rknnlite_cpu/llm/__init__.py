"""Language models on the CPU: decoder-only transformers with numpy alone."""

from __future__ import annotations

from .context import CpuLlmContext

__all__ = ["CpuLlmContext"]
