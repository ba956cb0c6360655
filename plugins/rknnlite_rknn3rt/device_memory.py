"""Device memory of a loaded model: buffers, figures per core, and internal memory that models use in turn."""

from __future__ import annotations

import abc
import ctypes as ct
import mmap
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Union

import numpy as np

from rknnlite.abi.rknn3_enums import RKNN3ImFmt
from rknnlite.abi.rknn3_types import RKNN3AllocationInfo, RKNN3CoreMemSize, RKNN3DevMemInfo, RKNN3TensorMemory
from rknnlite.errors import ParamInvalid
from rknnlite.spi import Memory, Versions

from . import memory
from .errors import check
from .images import DeviceImage
from .memory import Rknn3Memory
from .native_context import NativeContext

__all__ = ["DeviceModel", "share_internal"]

Memories = Union[Memory, Sequence[Memory]]


class DeviceModel(abc.ABC):
    """What contexts of networks and of language models share."""

    @abc.abstractmethod
    def _need(self) -> NativeContext:
        """The context of the C API; raises ContextInvalid after ``close``."""

    @abc.abstractmethod
    def _held(self) -> AbstractContextManager[None]:
        """Hold the model for a call."""

    @property
    @abc.abstractmethod
    def _guard(self) -> Any:
        """Lock under which nothing may be given back."""

    @property
    @abc.abstractmethod
    def user_internal(self) -> bool:
        """Whether the model was opened with ``user_internal=True``."""

    @property
    @abc.abstractmethod
    def _given(self) -> dict[str, list[Any]]:
        """Memory that C uses, by what for; it stays until the context is gone."""

    # -- what it is ---------------------------------------------------------------------------------------

    @property
    def backend_name(self) -> str:
        """Name of the backend that runs the model."""
        return "rknn3rt"

    @property
    def handle(self) -> NativeContext:
        """The context of the C API; raises ContextInvalid after ``close``."""
        return self._need()

    @property
    def versions(self) -> Versions:
        """Versions of the runtime and its driver."""
        native = self._need()
        return Versions(native.api.version, native.driver, native.library.name)

    # -- figures ------------------------------------------------------------------------------------------

    @property
    def core_num(self) -> int:
        """Cores that the model was converted for."""
        with self._held():
            return self._need().core_number()

    def core_memory(self) -> list[RKNN3CoreMemSize]:
        """Bytes of weights and internal tensors per core: ``core_id``, ``weight_size``, ``internal_size``."""
        with self._held():
            return self._need().core_memory()

    def allocation(self) -> list[RKNN3AllocationInfo]:
        """What the context holds per core: command, weight, internal and KV cache memory."""
        with self._held():
            return self._need().allocation()

    def device_memory(self) -> RKNN3DevMemInfo:
        """Memory of the device that the model is on."""
        with self._held():
            return self._need().device_memory()

    def profile_mem(self) -> None:
        """Let the library print its memory per core (to standard output, where it writes itself)."""
        with self._held():
            check("rknn3_profile_mem", self._need().call("rknn3_profile_mem"))

    # -- buffers ------------------------------------------------------------------------------------------

    def create_mem(self, size: int, flags: int = 0, core_id: int = 0) -> Rknn3Memory:
        """Memory on one core; ``flags`` are ``RKNN3MemAllocFlags`` (cacheable by default)."""
        with self._held():
            return memory.allocate(self._need(), size, core_id, flags, self._guard)

    def import_mem(self, handle: int, size: int, offset: int = 0) -> Rknn3Memory:
        """Memory behind a file descriptor, which stays the caller's."""
        with self._held():
            if handle < 0 or size <= 0 or offset < 0:
                raise ParamInvalid(
                    f"cannot import {size} bytes from offset {offset} of file descriptor {handle}"
                )
            try:
                mapping = np.frombuffer(mmap.mmap(handle, size + offset), np.uint8)
            except (OSError, ValueError) as error:
                raise ParamInvalid(f"file descriptor {handle} cannot be mapped: {error}") from None
            where = int(mapping.ctypes.data)
            mem = memory.from_fd(self._need(), handle, where, size, offset, self._guard)
            mem.native.adopt(mapping)
            return mem

    def import_phys(self, address: int, size: int, virtual: int = 0) -> Rknn3Memory:
        """Memory known by its physical address (runtime 1.0.0 only)."""
        with self._held():
            return memory.from_phys(self._need(), address, virtual, size, self._guard)

    def create_image(
        self,
        width: int,
        height: int,
        fmt: RKNN3ImFmt = RKNN3ImFmt.RKNN3_IM_FMT_RGB888,
        core_id: int = 0,
        flags: int = 0,
    ) -> DeviceImage:
        """An image buffer on one core."""
        with self._held():
            return DeviceImage(self._need(), width, height, fmt, core_id, flags, self._guard)

    def sync(self, mem: Memory, direction: str, offset: int = 0, length: int | None = None) -> None:
        """Transfer between host and device; a part of it with ``offset`` and ``length`` (runtime 1.0.4 on)."""
        with self._held():
            memory.synchronise(self._need(), mem, direction, offset, length)

    # -- memory that C uses -------------------------------------------------------------------------------

    def set_internal_mem(self, mem: Memories) -> None:
        """Memory for internal tensors, one per core of the model; may belong to another open model."""
        if not self.user_internal:
            raise ParamInvalid("open the model with user_internal=True to give it internal memory")
        self._give("rknn3_set_internal_mem", mem, "internal_size")

    def set_weight_mem(self, mem: Memories) -> None:
        """Memory for weights, one per core (runtime 1.0.4 and after)."""
        self._give("rknn3_set_weight_mem", mem, "weight_size")

    def set_kvcache_mem(self, mem: Memories) -> None:
        """Memory for the KV cache, one per core."""
        with self._held():
            mems = _listed(mem)
            cores = (ct.c_int * len(mems))(*(m.core_id for m in mems))
            code = self._need().call("rknn3_set_kvcache_mem", _pointers(mems), cores, len(mems))
            check("rknn3_set_kvcache_mem", code)
            self._keep("rknn3_set_kvcache_mem", mems)

    def _give(self, function: str, mem: Memories, field: str) -> None:
        with self._held():
            native, mems = self._need(), _listed(mem)
            by_core = {m.core_id: m for m in mems}
            for core in native.core_memory():
                given = by_core.get(core.core_id)
                need = getattr(core, field)
                if given is None or given.size < need:
                    have = f"{given.size} bytes" if given is not None else "nothing"
                    raise ParamInvalid(
                        f"{function}: core {core.core_id} needs {need} bytes, {have} was given"
                    )
            check(function, native.call(function, _pointers(mems), len(mems)))
            self._keep(function, mems)

    def _keep(self, function: str, mems: list[Rknn3Memory]) -> None:
        """Memory of this context goes before it, memory of another one after it."""
        native = self._need()
        self._given[function] = [m.native for m in mems if m.context is native]
        for mem in mems:
            if mem.context is not native:
                native.adopt(mem.native)


def _listed(mem: Memories) -> list[Rknn3Memory]:
    given = [mem] if isinstance(mem, Memory) else list(mem)
    mems = [m for m in given if isinstance(m, Rknn3Memory)]
    if not given or len(mems) != len(given):
        raise ParamInvalid("memory of this backend is needed, see create_mem; one per core")
    for m in mems:
        _ = m.native  # raises when it is closed
    return mems


def _pointers(mems: list[Rknn3Memory]) -> Any:
    return (ct.POINTER(RKNN3TensorMemory) * len(mems))(*(m.pointer for m in mems))


def share_internal(first: DeviceModel, *others: DeviceModel) -> list[Rknn3Memory]:
    """One set of internal memory for models that never run at the same time (a vision encoder and its LLM, say).

    All of them on one device, opened with ``user_internal=True``. Each core gets as much as the greediest model
    needs there. The memory lives as long as one of the models.
    """
    models = [first, *others]
    needs = [{core.core_id: core.internal_size for core in model.core_memory()} for model in models]
    cores = sorted({core for need in needs for core in need})
    mems = {
        core: first.create_mem(max(1, *(need.get(core, 0) for need in needs)), core_id=core) for core in cores
    }
    for model, need in zip(models, needs):
        model.set_internal_mem([mems[core] for core in sorted(need)])
    return list(mems.values())
