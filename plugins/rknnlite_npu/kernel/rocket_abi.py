"""The interface of mainline Linux's driver, ``rocket``: structures and requests of ``/dev/accel/accel*``.

Facts of its public header; pointers are numbers of 64 bits, so 32 and 64 bits agree. ``Job.flags`` and what is named as of an
interface version are changes that people carry outside of mainline; a driver tells by its version that it has them.
"""

from __future__ import annotations

import ctypes as ct
import enum

from .device import drm_request

__all__ = [
    "SINCE",
    "STRUCTURES",
    "CreateBo",
    "FiniBo",
    "Job",
    "JobFlag",
    "PrepBo",
    "Request",
    "Submit",
    "TaskWords",
]

_COMMAND_BASE = 0x40


class CreateBo(ct.Structure):
    """A new buffer: all but ``size`` are answers; ``offset`` is for ``mmap``."""

    _fields_ = [
        ("size", ct.c_uint32),
        ("handle", ct.c_uint32),
        ("dma_address", ct.c_uint64),
        ("offset", ct.c_uint64),
    ]


class PrepBo(ct.Structure):
    """Wait until the jobs of a buffer are done, and let the CPU see it. ``timeout_ns`` is a time of CLOCK_MONOTONIC."""

    _fields_ = [("handle", ct.c_uint32), ("reserved", ct.c_uint32), ("timeout_ns", ct.c_int64)]


class FiniBo(ct.Structure):
    """Let the NPU see what the CPU has written."""

    _fields_ = [("handle", ct.c_uint32), ("reserved", ct.c_uint32)]


class TaskWords(ct.Structure):
    """A task: where its command words lie, and how many, with the four that end them."""

    _fields_ = [("regcmd", ct.c_uint32), ("regcmd_count", ct.c_uint32)]


class Job(ct.Structure):
    """Tasks, one after the other on one core. A mainline driver reads it up to ``flags``."""

    _fields_ = [
        ("tasks", ct.c_uint64),
        ("in_bo_handles", ct.c_uint64),
        ("out_bo_handles", ct.c_uint64),
        ("task_count", ct.c_uint32),
        ("task_struct_size", ct.c_uint32),
        ("in_bo_handle_count", ct.c_uint32),
        ("out_bo_handle_count", ct.c_uint32),
        ("flags", ct.c_uint32),
        ("reserved", ct.c_uint32),
    ]


class Submit(ct.Structure):
    """Jobs."""

    _fields_ = [
        ("jobs", ct.c_uint64),
        ("job_count", ct.c_uint32),
        ("job_struct_size", ct.c_uint32),
        ("reserved", ct.c_uint64),
    ]


STRUCTURES = {kind.__name__: kind for kind in (CreateBo, PrepBo, FiniBo, TaskWords, Job, Submit)}


class Request(enum.IntEnum):
    """What ``ioctl`` takes."""

    CREATE_BO = drm_request(_COMMAND_BASE, CreateBo)
    SUBMIT = drm_request(_COMMAND_BASE + 1, Submit, reads=False)
    PREP_BO = drm_request(_COMMAND_BASE + 2, PrepBo, reads=False)
    FINI_BO = drm_request(_COMMAND_BASE + 3, FiniBo, reads=False)


class JobFlag(enum.IntFlag):
    """``Job.flags``. Drivers refuse those that they do not know; ``SINCE`` has the version of the interface that knows them."""

    BATCHED = 1
    """One start for all tasks, whose words lie one behind the other and lead to each other."""
    PPU_DONE = 4
    """The job ends with the pooling unit; all its tasks are of that unit."""


SINCE = {JobFlag.BATCHED: (1, 1), JobFlag.PPU_DONE: (1, 3)}
