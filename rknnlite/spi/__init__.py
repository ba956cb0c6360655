"""The contracts a plugin implements. An author can implement one from these docstrings alone.

A *backend* is one way of computing (the CPU reference, a vendor runtime library). Opening a model on it
gives a *context*: one loaded model, ready to run, owned by one caller at a time. A *custom op* is an
operator that the author supplies; any backend takes it.
"""

from __future__ import annotations

from .backend import Backend
from .context import Context
from .custom_op import CustomOp, CustomOpFailed, OpContext, OpNode, UseBuiltin
from .op_host import GpuKernel, GpuServices, OpHost, PostProcess
from .perf import CoreMemory, MemorySize, PerfRow, PerfTable
from .types import AttrKind, Device, Input, Memory, OpenOptions, Probe, RawOutput, Step, Versions

__all__ = [
    "AttrKind",
    "Backend",
    "Context",
    "CoreMemory",
    "CustomOp",
    "CustomOpFailed",
    "Device",
    "GpuKernel",
    "GpuServices",
    "Input",
    "Memory",
    "MemorySize",
    "OpContext",
    "OpHost",
    "OpNode",
    "OpenOptions",
    "PerfRow",
    "PerfTable",
    "PostProcess",
    "Probe",
    "RawOutput",
    "Step",
    "UseBuiltin",
    "Versions",
]
