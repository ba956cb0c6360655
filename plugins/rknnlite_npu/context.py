"""One model on an NPU that is reached through a transport."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_backend.bindings import Bindings
from rknnlite_backend.cache_coherence import CacheCoherence
from rknnlite_backend.host_memory import HostMemory
from rknnlite_backend.running import (
    check_dup,
    find_shapes,
    in_order,
    no_data,
    not_run,
)
from rknnlite_backend.zero_copy import TRY_SRAM

from rknnlite._version import __version__
from rknnlite.errors import RknnError
from rknnlite.spi import CustomOp, Input, Versions
from rknnlite.spi.custom_op import as_custom_op, distinct
from rknnlite.tensor import TensorAttr

from .frames import Frames, NpuOutputs
from .loaded_program import LoadedProgram, SharedWeights
from .opened_model import OpenedModel
from .running_context import NpuFrame, RunningContext
from .transport import DeviceMemory, MemoryUse, SharedTransport

if TYPE_CHECKING:
    from rknnlite_backend.perf import MemorySize, PerfTable
    from rknnlite_insight.dumps import Dump

__all__ = ["NpuContext"]

Array = NDArray[Any]
Bytes = NDArray[np.uint8]


class NpuContext(RunningContext):
    """Runs the jobs of a model's submission, and its nodes of the CPU between them."""

    def __init__(
        self,
        backend: str,
        opened: OpenedModel,
        shared: SharedTransport,
        original: Optional[NpuContext] = None,
    ) -> None:
        """``shared`` is this context's to release from now on; ``original``: the context that this one duplicates.

        Raises ModelInvalid, ModelUnsupported, OutOfMemory.
        """
        extra = opened.options.extra
        flush = [extra.get(f"flush_{way}puts", True) for way in ("in", "out")]
        super().__init__(Bindings(lambda: CacheCoherence(*flush), extra.get("outside")))
        self._backend, self._opened, self._shared = backend, opened, shared
        self._shape_chosen = not opened.model.dynamic
        self._frames = Frames()
        self._programs: dict[int, LoadedProgram] = {}
        self._ops = {op.op_type: op for op in opened.options.custom_ops}
        self._mask, self._batch_cores = opened.options.core_mask or 0, 0
        number = opened.model.default_shape
        try:
            if original is not None:
                self._ops, self._mask, number = dict(original._ops), original._mask, original._number
                self._batch_cores = original._batch_cores
                self._programs[number] = original._program.twin(self._ops)
            self._select(number)
        except BaseException:
            shared.release()
            raise

    def _select(self, number: int) -> None:
        """Use another shape; where it cannot be prepared the one before stays in use."""
        variant = self._opened.variant(number)
        if number not in self._programs:
            cpu = self._opened.cpu_nodes(variant, self._ops)
            weights = SharedWeights(self._shared.transport, variant.program)
            flags = TRY_SRAM if self._opened.options.extra.get("sram") else 0
            self._programs[number] = LoadedProgram(variant.program, weights, cpu, internal_flags=flags)
        self._number, self._variant, self._program = number, variant, self._programs[number]

    # -- what it is ---------------------------------------------------------------------------------------

    @property
    def backend_name(self) -> str:
        return self._backend

    @property
    def inputs(self) -> list[TensorAttr]:
        return list(self._variant.inputs)

    @property
    def outputs(self) -> list[TensorAttr]:
        return list(self._variant.outputs)

    @property
    def native_inputs(self) -> list[TensorAttr]:
        return list(self._variant.native_inputs)

    @property
    def native_outputs(self) -> list[TensorAttr]:
        return list(self._variant.native_outputs)

    @property
    def _has_post(self) -> bool:
        return False

    @property
    def versions(self) -> Versions:
        return Versions(api=f"rknnlite {self._backend} {__version__}", driver=self._shared.transport.name)

    @property
    def frame_id(self) -> int | None:
        return self._frames.fetched if self._opened.options.async_mode else None

    @property
    def last_run_us(self) -> int:
        return self._frames.last_us

    # -- settings -----------------------------------------------------------------------------------------

    def set_core_mask(self, mask: int) -> None:
        with self.exclusive():
            self.soc.check_core_mask(mask)
            self._mask = mask

    def set_batch_core_num(self, count: int) -> None:
        """How many items of a batch run at once, where the kernel gives a core to each open device; else one behind the other."""
        with self.exclusive():
            self.soc.check_batch_cores(count)
            self._batch_cores = count

    def set_shapes(self, shapes: Sequence[Sequence[int]]) -> None:
        with self.step():
            self._settle()
            self._select(find_shapes(self._opened.label, shapes, self.shapes, self.inputs))
            self._frames.inputs = self._frames.given = None
            self._bindings.clear()
            self._shape_chosen = True

    def register_ops(self, ops: Sequence[CustomOp]) -> None:
        with self.step():
            self._settle()
            for op in distinct(map(as_custom_op, ops)):
                self._opened.file.check()  # constants go to the operator
                for program in self._programs.values():
                    program.cpu.register(op)
                self._ops[op.op_type] = op
            self._close_lanes()

    # -- common path --------------------------------------------------------------------------------------

    def set_inputs(self, inputs: Sequence[Input]) -> None:
        with self.step():
            self._opened.check_runs()
            self._check_path()
            ordered = in_order(inputs, self._variant.inputs, self._opened.label)
            self.follow_shapes(inputs)
            self._frames.inputs, _ = self._converted(ordered, {})
            self._frames.given = ordered if self.mixed_paths else None
            self._bindings.clear_inputs()
            self._common = True

    def get_outputs(self, want_float: bool = True) -> list[Array]:
        with self.step():
            self._check_path()
            frame = self._answer()
            return frame.floats() if want_float else frame.elements()

    def _answer(self) -> NpuOutputs:
        """The frame whose outputs are to be given; in async mode that before the last one."""
        frames = self._frames
        newest = frames.count - 1
        for number in (newest - 1, newest) if self._opened.options.async_mode else (newest,):
            if self._flight is not None:
                self._flight.wait(number)
            frame = frames.frame(number)
            if frame is not None:
                frames.fetched = number
                return frame
        raise not_run()

    # -- memory -------------------------------------------------------------------------------------------

    def _allocate(self, size: int, flags: int) -> DeviceMemory:
        return self._shared.transport.allocate(size, MemoryUse.SHARED, flags)

    def _import(self, fd: int, size: int, offset: int) -> HostMemory:
        return self._shared.transport.import_fd(fd, size, offset)

    # -- figures ------------------------------------------------------------------------------------------

    def perf_table(self) -> PerfTable:
        """One row per node: counts of tasks and command words, and times of one more frame where an NPU computes it."""
        from .perf import perf_table

        with self.exclusive():
            if not self._frames.count:
                raise not_run("figures")
            times = self._node_times() if self._shared.transport.times_jobs else None
            return perf_table(self._variant.program, self._variant.graph, self._mask_of_file, self.soc, times)

    def _node_times(self) -> dict[int, float]:
        """Microseconds of each node of one more frame; what the kernel says of a job, else until it was waited for."""
        self._settle()
        transport, found = self._shared.transport, dict[int, float]()
        inputs, direct = self._frames.inputs, dict[int, DeviceMemory]()
        if self._bindings.bound:
            inputs, direct = self._converted(self._with_bound(self._bound_frame()), self._direct())
        if inputs is None:
            raise no_data("a table of times")
        told, began = transport.elapsed_ns, time.perf_counter_ns()

        def after(node: int) -> None:
            nonlocal told, began
            spent = transport.elapsed_ns - told or time.perf_counter_ns() - began
            found[node] = found.get(node, 0.0) + spent / 1e3
            told, began = transport.elapsed_ns, time.perf_counter_ns()

        self._compute(NpuFrame(0, inputs, None, direct, self._bindings.hold_internal()), after)
        return found

    def memory(self) -> MemorySize:
        """The buffers of the submission, in bytes."""
        from rknnlite_backend.perf import MemorySize

        with self.exclusive():
            program = self._variant.program
            weight, internal = program.weight_size, program.internal_size
            io = sum(memory.size for memory in self._program.io)
            return MemorySize(
                weight,
                internal,
                weight + internal + io + program.record_bytes,
                model=len(self._opened.file.data),
            )

    def dump(self, directory: str | os.PathLike[str], golden: Dump | None = None) -> Dump:
        """See ``Context.dump``; every node is a job of its own. Raises RknnError for ``golden``."""
        if golden is not None:
            raise RknnError(f"backend {self._backend} cannot compute a node on the operands of another dump")
        from .dump import Recorder

        with self.exclusive():
            self._settle()
            if self._frames.inputs is None or self._bindings.bound:
                raise no_data("a dump")
            recorder = Recorder(self._opened, self._variant, self._program, directory, self._backend)
            internal = self._bindings.hold_internal()
            self._compute(NpuFrame(0, self._frames.inputs, None, {}, internal), recorder.after)
            return recorder.close()

    # -- life ---------------------------------------------------------------------------------------------

    def dup(self) -> NpuContext:
        with self.exclusive():
            self._settle()
            check_dup(self._opened.label, self._opened.model.dynamic, self.soc)
            return NpuContext(self._backend, self._opened, self._shared.share(), self)

    def _release(self) -> None:
        self._give_up()
        self._bindings.close()
        self._close_lanes()
        for program in self._programs.values():
            program.close()
        self._shared.release()
