"""The contracts a plugin implements. An author can implement one from these docstrings alone.

A *backend* is one way of computing (the CPU reference, a vendor runtime library). Opening a model on it
gives a *context*: one loaded model, ready to run, owned by one caller at a time. A *custom op* is an
operator that the author supplies; any backend takes it.

* ``backend``, ``context`` and ``types``; ``custom_op`` and ``op_host``; ``matmul``; ``llm``, ``llm_inputs``, ``llm_types``;
  ``command``, ``finding``, ``inspection``, ``public_name``: what a plugin brings beside computing.
* What every backend does alike: ``inputs`` (arrays to inputs), ``arguments`` (types), ``exclusive`` (who may call when),
  ``one_thread``; the library of what backends share has more of it.
* What is shown: ``terminal``, ``progress``, ``plugin_problems``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .backend import Backend
from .context import Context
from .types import AttrKind, Device, Input, Memory, OpenOptions, Probe, RawOutput, Step, Versions

if TYPE_CHECKING:
    from .custom_op import CustomOp, CustomOpFailed, OpContext, OpNode, UseBuiltin
    from .op_host import GpuKernel, GpuServices, OpHost, PostProcess

__all__ = [
    "CONTRACT",
    "AttrKind",
    "Backend",
    "Context",
    "CustomOp",
    "CustomOpFailed",
    "Device",
    "GpuKernel",
    "GpuServices",
    "Input",
    "Memory",
    "OpContext",
    "OpHost",
    "OpNode",
    "OpenOptions",
    "PostProcess",
    "Probe",
    "RawOutput",
    "Step",
    "UseBuiltin",
    "Versions",
]

CONTRACT = 1
"""The version of contracts and hooks; a plugin whose ``RKNNLITE_CONTRACT`` is another is left out (docs/stability.md)."""
_MODULES = {
    **dict.fromkeys(("CustomOp", "CustomOpFailed", "OpContext", "OpNode", "UseBuiltin"), "custom_op"),
    **dict.fromkeys(("GpuKernel", "GpuServices", "OpHost", "PostProcess"), "op_host"),
    **dict.fromkeys(
        ("CoreMemory", "MemorySize", "PerfRow", "PerfTable"), "perf"
    ),  # of the library backend, see libraries
}
"""Operators of the author's own and figures, whose module is imported when somebody asks for one: most programs never do."""


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
