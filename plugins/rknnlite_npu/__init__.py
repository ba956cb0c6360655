"""The NPU's command words: what a runtime hands to the kernel for one run, from the file alone.

* ``submission`` is the pure function ``plan``: buffers, relocated command words, task records, pixels, which cores get what.
* What a file holds: ``program`` (tensors, nodes, words, records), ``task`` (a record), ``weight_buffer`` (where constants lie),
  ``relocations`` (where addresses stand in the words), ``command_words`` (units, registers, what ends a program), ``program_chain``
  (that each leads to another), ``loop_counters`` (addresses that loops count with), ``row_moves`` and ``unwritten_tensors`` (what
  the runtime arranges by itself).
* What a plan adds: ``placement`` (where everything lies), ``pixels`` (the NPU converts uint8 itself), ``cores`` (which core
  gets which tasks, in which jobs), ``register_groups`` (what registers hold that a task does not write).
* What a plan costs: ``counts`` (tasks, words, products, bytes; ``task_sizes``: which registers tell), ``cycles`` (an estimate),
  ``limits`` (what it comes near), ``cpu_reasons``; ``inspector`` and ``layer_table`` are ``info --npu`` and ``perf --npu``,
  ``verdict_inspector`` what ``info`` tells of a model on this machine's NPU.
* ``plan_command`` is ``rknnlite npu-plan``, ``plan_file`` the arrays that it writes.
* Running: ``backend`` offers ``npu`` and ``npu-machine``; ``context`` with ``running_context`` serves programs, ``opened_model``
  is what is fixed for a model, ``loaded_program`` its buffers and jobs (``job_times``: short ones), ``program_words`` the words in
  them, ``lanes`` further ones for
  the items of a batch, ``cpu_nodes`` what the NPU leaves out. ``inputs`` and
  ``tensor_bytes`` are how tensors lie, ``frames`` what is kept of a run, ``perf`` and ``dump`` what is told of it.
* ``transport`` is the way to an NPU: ``machine_transport`` that to the machine, ``core_jobs`` its cores; ``rknpu_abi`` the
  vendor's kernel interface. ``kernel`` has those to drivers, ``stamps`` tell what a driver gave up.
* ``machine`` executes words: a room of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rknnlite import hookimpl

if TYPE_CHECKING:
    from pathlib import Path

    from rknnlite.spi import Backend
    from rknnlite.spi.command import Command, Console
    from rknnlite.spi.inspection import Inspector

__all__ = [
    "rknnlite_register_backends",
    "rknnlite_register_commands",
    "rknnlite_register_inspectors",
    "try_npu",
]


@hookimpl
def rknnlite_register_backends(register: Callable[[Backend], None]) -> None:
    """Offer the backends ``npu-machine`` and ``npu``."""
    from .backend import KernelBackend, MachineBackend

    register(MachineBackend())
    register(KernelBackend())


@hookimpl
def rknnlite_register_commands(register: Callable[[Command], None]) -> None:
    """Offer ``rknnlite npu-plan``."""
    from rknnlite.libraries import commands_of

    for command in commands_of("npu"):
        register(command)


@hookimpl
def rknnlite_register_inspectors(register: Callable[[Inspector], None]) -> None:
    """Tell what the NPU is given for a model, and what was found of it on the NPU of this machine."""
    from .inspector import NpuInspector
    from .verdict_inspector import VerdictInspector

    register(NpuInspector())
    register(VerdictInspector())


def try_npu(model: Path | None, console: Console) -> int:
    """``rknnlite doctor --try-npu``: see ``kernel.trial``."""
    from .kernel.trial import try_npu as run

    return run(model, console)
