"""The vendor's kernel interface, ``rknpu``: structures and requests of its ioctls, as a DRM device and as ``/dev/rknpu``.

Facts of the driver's public header. ``int`` and pointers do not occur, so 32 and 64 bits agree. ``MemCreate`` has grown, and a
request's number holds the size: a DRM device fills up what is missing, old drivers of ``/dev/rknpu`` do nothing for a number
that is not exactly theirs, and tell success. So a driver is asked for its version first; that request is alike in all.
"""

from __future__ import annotations

import ctypes as ct
import enum
from typing import Any, NamedTuple

__all__ = [
    "COMMAND_BASE",
    "REVISIONS",
    "STRUCTURES",
    "Action",
    "Command",
    "Job",
    "MemCreate",
    "MemCreateOld",
    "MemDestroy",
    "MemFlag",
    "MemMap",
    "MemSync",
    "Revision",
    "Submit",
    "SubmitOld",
    "SyncFlag",
    "TaskRange",
    "UserAction",
    "request",
    "revision_of",
]

COMMAND_BASE = 0x40
"""Of a DRM device: requests begin here; those of ``/dev/rknpu`` begin at 0."""
_DRM, _MISC = ord("d"), ord("r")
_READ_WRITE = 3


class UserAction(ct.Structure):
    """Ask for, or set, one number: see ``Action``."""

    _fields_ = [("flags", ct.c_uint32), ("value", ct.c_uint32)]


class MemCreateOld(ct.Structure):
    """A new buffer; ``handle``, ``obj_addr`` and ``dma_addr`` are answers, sizes come back as whole pages."""

    _fields_ = [
        ("handle", ct.c_uint32),
        ("flags", ct.c_uint32),
        ("size", ct.c_uint64),
        ("obj_addr", ct.c_uint64),
        ("dma_addr", ct.c_uint64),
        ("sram_size", ct.c_uint64),
    ]


class MemCreate(ct.Structure):
    """As newer drivers have it."""

    _fields_ = [*MemCreateOld._fields_, ("iommu_domain_id", ct.c_int32), ("core_mask", ct.c_uint32)]


class MemMap(ct.Structure):
    """Where a buffer is to be mapped: an offset for ``mmap`` of the device."""

    _fields_ = [("handle", ct.c_uint32), ("reserved", ct.c_uint32), ("offset", ct.c_uint64)]


class MemDestroy(ct.Structure):
    """A buffer that is no longer needed."""

    _fields_ = [("handle", ct.c_uint32), ("reserved", ct.c_uint32), ("obj_addr", ct.c_uint64)]


class MemSync(ct.Structure):
    """Caches of a part of a buffer: see ``SyncFlag``."""

    _fields_ = [
        ("flags", ct.c_uint32),
        ("reserved", ct.c_uint32),
        ("obj_addr", ct.c_uint64),
        ("offset", ct.c_uint64),
        ("size", ct.c_uint64),
    ]


class TaskRange(ct.Structure):
    """Records of one core."""

    _fields_ = [("start", ct.c_uint32), ("number", ct.c_uint32)]


_SUBMIT: list[tuple[str, Any]] = [
    ("flags", ct.c_uint32),
    ("timeout", ct.c_uint32),
    ("task_start", ct.c_uint32),
    ("task_number", ct.c_uint32),
    ("task_counter", ct.c_uint32),
    ("priority", ct.c_int32),
    ("task_obj_addr", ct.c_uint64),
]
_CORES: list[tuple[str, Any]] = [
    ("core_mask", ct.c_uint32),
    ("fence_fd", ct.c_int32),
    ("subcore_task", TaskRange * 5),
]


class SubmitOld(ct.Structure):
    """A job, up to 0.9.6. ``task_counter`` is the number of records that were done. With one or two cores their ranges are
    ``subcore_task[core]``, with three ``subcore_task[core + 2]``."""

    _fields_ = [
        *_SUBMIT,
        ("regcfg_obj_addr", ct.c_uint64),
        ("task_base_addr", ct.c_uint64),
        ("user_data", ct.c_uint64),
        *_CORES,
    ]


class Submit(ct.Structure):
    """As newer drivers have it, of the same size; ``hw_elapse_time`` is an answer, nanoseconds."""

    _fields_ = [
        *_SUBMIT,
        ("iommu_domain_id", ct.c_uint32),
        ("reserved", ct.c_uint32),
        ("task_base_addr", ct.c_uint64),
        ("hw_elapse_time", ct.c_int64),
        *_CORES,
    ]


STRUCTURES = {
    kind.__name__: kind
    for kind in (
        UserAction,
        MemCreateOld,
        MemCreate,
        MemMap,
        MemDestroy,
        MemSync,
        TaskRange,
        SubmitOld,
        Submit,
    )
}


class Command(enum.IntEnum):
    """What is asked for."""

    ACTION = 0
    SUBMIT = 1
    MEM_CREATE = 2
    MEM_MAP = 3
    MEM_DESTROY = 4
    MEM_SYNC = 5


class Action(enum.IntEnum):
    """Numbers of the NPU: ``UserAction.flags``. Those that change clocks and voltages are left out."""

    GET_HW_VERSION = 0
    GET_DRV_VERSION = 1
    GET_FREQ = 2
    GET_VOLT = 4
    RESET = 6
    GET_IOMMU_EN = 18
    SET_PROC_NICE = 19
    POWER_ON = 20
    POWER_OFF = 21
    GET_TOTAL_SRAM_SIZE = 22
    GET_FREE_SRAM_SIZE = 23


class MemFlag(enum.IntFlag):
    """``MemCreate.flags``; the task buffer needs ``KERNEL_MAPPING``."""

    NON_CONTIGUOUS = 1
    CACHEABLE = 2
    WRITE_COMBINE = 4
    KERNEL_MAPPING = 8
    IOMMU = 0x10
    ZEROING = 0x20
    SECURE = 0x40
    DMA32 = 0x80
    TRY_SRAM = 0x100
    TRY_NBUF = 0x200
    LIMIT_IOVA_ALIGNMENT = 0x400


class SyncFlag(enum.IntFlag):
    """``MemSync.flags``."""

    TO_DEVICE = 1
    FROM_DEVICE = 2


class Job(enum.IntFlag):
    """``Submit.flags``; the vendor's library submits ``PC | PINGPONG``."""

    PC = 1
    NONBLOCK = 2
    PINGPONG = 4
    FENCE_IN = 8
    FENCE_OUT = 0x10


class Revision(NamedTuple):
    """What differs between drivers.

    Attributes:
        since: the first version that is so.
        create: what ``MEM_CREATE`` takes; ``submit``: a job.
        flags: those of memory that it knows; others are refused.
        tells_time: how long a job took, in ``Submit.hw_elapse_time``.
    """

    since: tuple[int, int, int]
    create: type[ct.Structure]
    submit: type[ct.Structure]
    flags: MemFlag
    tells_time: bool


_ALL = MemFlag(0x7FF)
REVISIONS = (
    Revision((0, 9, 7), MemCreate, Submit, _ALL, True),
    Revision((0, 0, 0), MemCreateOld, SubmitOld, _ALL & ~MemFlag.LIMIT_IOVA_ALIGNMENT, False),
)
"""The newest first."""


def revision_of(version: tuple[int, int, int]) -> Revision:
    """That of a driver.

    Examples:
        >>> revision_of((0, 8, 2)).create.__name__
        'MemCreateOld'
    """
    return next(revision for revision in REVISIONS if version >= revision.since)


def request(command: Command, size: int, drm: bool = True) -> int:
    """The number that ``ioctl`` takes, for a structure of ``size`` bytes.

    Examples:
        >>> hex(request(Command.SUBMIT, ct.sizeof(Submit)))
        '0xc0686441'
        >>> hex(request(Command.MEM_CREATE, ct.sizeof(MemCreate), drm=False))
        '0xc0307202'
    """
    kind, base = (_DRM, COMMAND_BASE) if drm else (_MISC, 0)
    return _READ_WRITE << 30 | size << 16 | kind << 8 | base + command
