"""One model on an NPU that is reached through a transport."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_backend.begun_frames import BegunFrames
from rknnlite_backend.bindings import Bindings, BoundFrame
from rknnlite_backend.cache_coherence import CacheCoherence, has_sides
from rknnlite_backend.running import (
    both_paths,
    check_dup,
    find_shapes,
    in_order,
    no_data,
    not_prepared,
    not_run,
    partly_bound,
)

from rknnlite._version import __version__
from rknnlite.errors import RknnError
from rknnlite.formats import Model
from rknnlite.layout import nchw_to_nhwc_shape
from rknnlite.socs import Soc
from rknnlite.spi import CustomOp, Input, Versions
from rknnlite.spi.custom_op import as_custom_op, distinct
from rknnlite.tensor import DType, Layout, TensorAttr

from .cores import legal_masks
from .frames import FrameInputs, Frames, NpuOutputs
from .loaded_program import LoadedProgram, SharedWeights
from .opened_model import OpenedModel
from .transport import DeviceMemory, SharedTransport

if TYPE_CHECKING:
    from rknnlite_backend.perf import MemorySize, PerfTable
    from rknnlite_insight.dumps import Dump

__all__ = ["NpuContext"]

Array = NDArray[Any]
Bytes = NDArray[np.uint8]


@dataclass
class _Frame:
    """A frame that is about to be computed."""

    number: int
    inputs: FrameInputs
    bound: Optional[BoundFrame]
    direct: dict[int, DeviceMemory]
    """Memory that the NPU itself reads or writes, by the number of the input or output (inputs first)."""
    internal_memory: AbstractContextManager[None]


class NpuContext(BegunFrames[_Frame]):
    """Runs the jobs of a model's submission, and its nodes of the CPU between them.

    Memory that is bound in a tensor's native form is what the NPU itself reads and writes; any other form is converted.
    """

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
        self._mask = opened.options.core_mask or 0
        number = opened.model.default_shape
        try:
            if original is not None:
                self._ops, self._mask, number = dict(original._ops), original._mask, original._number
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
            self._programs[number] = LoadedProgram(variant.program, weights, cpu)
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
    def lent(self) -> Model:
        self._opened.file.check()  # its weights are to be read
        return self._opened.model

    @property
    def _has_post(self) -> bool:
        return False

    @property
    def versions(self) -> Versions:
        return Versions(api=f"rknnlite {self._backend} {__version__}", driver=self._shared.transport.name)

    @property
    def soc(self) -> Soc:
        return self._opened.soc

    @property
    def batch(self) -> int:
        return self._opened.model.batch

    @property
    def custom_string(self) -> str:
        return self._opened.model.custom_string

    @property
    def frame_id(self) -> int | None:
        return self._frames.fetched if self._opened.options.async_mode else None

    @property
    def last_run_us(self) -> int:
        return self._frames.last_us

    @property
    def _newest(self) -> int | None:
        return self._frames.newest

    # -- settings -----------------------------------------------------------------------------------------

    def set_core_mask(self, mask: int) -> None:
        with self.exclusive():
            self.soc.check_core_mask(mask)
            self._mask = mask

    def set_batch_core_num(self, count: int) -> None:
        """Items of a batch run one behind the other, whatever is asked for."""
        with self.exclusive():
            self.soc.check_batch_cores(count)

    @property
    def shapes(self) -> list[list[tuple[int, ...]]]:
        return [[nchw_to_nhwc_shape(shape) for shape in shapes] for shapes in self._opened.model.shapes]

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

    def _converted(
        self, inputs: Sequence[Input], direct: Mapping[int, DeviceMemory]
    ) -> tuple[FrameInputs, dict[int, DeviceMemory]]:
        """Bytes of all inputs but those that are ``direct``, and which may stay so.

        Pixels stay what they are where the NPU converts them, if all pictures are pixels: else the CPU converts.
        """
        feeds = self._variant.feeds
        pictures = [feed.is_pixels(item) for feed, item in zip(feeds, inputs) if feed.is_picture]
        pixels = bool(pictures) and all(pictures) and self._program.takes_pixels
        rows: list[list[Bytes]] = []
        kept = dict(direct)
        for number, (feed, item) in enumerate(zip(feeds, inputs)):
            if number in kept and feed.is_pixels(item) and not pixels:
                del kept[number]
            rows.append([] if number in kept else feed.items(item, pixels and feed.is_picture))
        return FrameInputs(rows, pixels), kept

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

    def _check_path(self) -> None:
        if self._bindings.bound and not self.mixed_paths:
            raise both_paths()

    # -- frames -------------------------------------------------------------------------------------------

    def _begin(self) -> _Frame:
        self._opened.check_runs()
        internal_memory, frames = self._bindings.hold_internal(), self._frames
        bound, direct = None, dict[int, DeviceMemory]()
        inputs = frames.inputs
        if self._bindings.bound:
            bound = self._bindings.begin(self._places(), self._variant.native_inputs, self.mixed_paths)
            inputs, direct = self._converted(self._with_bound(bound), self._direct())
        if inputs is None:
            raise not_prepared()
        return _Frame(frames.begin(), inputs, bound, direct, internal_memory)

    def _with_bound(self, bound: BoundFrame) -> list[Input]:
        """What lies in bound memory now, and what was set for inputs that have none."""
        missing = [attr.name for i, attr in enumerate(self._variant.inputs) if i not in bound.inputs]
        set_by_caller = self._frames.given
        if missing and set_by_caller is None:
            raise partly_bound(missing, how="bind or set")
        return [
            bound.inputs[i] if i in bound.inputs else (set_by_caller or [])[i]
            for i in range(len(self._variant.ins))
        ]

    def _direct(self) -> dict[int, DeviceMemory]:
        """The bound memory that has the very form in which the NPU keeps its tensor."""
        if self.batch > 1:
            return {}
        found: dict[int, DeviceMemory] = {}
        count = len(self._variant.ins)
        natives = [*self._variant.native_inputs, *self._variant.native_outputs]
        for number, (native, form) in enumerate(zip(natives, self._variant.forms)):
            is_input = number < count
            bound = self._bindings.memory_of(is_input, number if is_input else number - count)
            if bound is None:
                continue
            memory, attr = bound
            if not isinstance(memory, DeviceMemory) or has_sides(memory):
                continue
            same = attr.layout is native.layout and attr.dims == native.dims
            stored = attr.dtype is native.dtype or (is_input and form.picture and attr.dtype is DType.UINT8)
            whole = form.picture or form.plain or prod(native.dims) == prod(form.grid)
            if same and stored and whole and memory.size >= form.nbytes and native.layout is not Layout.NCHW:
                found[number] = memory
        return found

    def _keep_inputs(self, frame: _Frame) -> None:
        """Those that are not the NPU's own memory are copies; the others become so, and results are written when the frame ends."""
        for number, memory in frame.direct.items():
            if number < len(self._variant.ins):
                frame.inputs.items[number] = [memory.ndarray[: self._variant.forms[number].nbytes].copy()]
        frame.direct.clear()

    def _make(self, begun: _Frame) -> None:
        done: NpuOutputs | None = None
        try:
            with begun.internal_memory:
                started = time.perf_counter()
                done = self._compute(begun)
                self._frames.last_us = round((time.perf_counter() - started) * 1e6)
                if begun.bound is not None:
                    first = len(self._variant.ins)
                    written = {number - first for number in begun.direct if number >= first}
                    begun.bound.write(done, self._variant.native_outputs, written)
        except BaseException:
            done = None
            raise
        finally:
            self._frames.end(done)

    def _compute(self, frame: _Frame, after: Callable[[int], None] | None = None) -> NpuOutputs:
        """Run each item of a batch."""
        program, first = self._program, len(self._variant.ins)
        for number in range(len(program.io)):
            program.place_io(number, frame.direct.get(number))
        wanted = list(range(first, len(program.io)))
        if frame.bound is not None and not self.mixed_paths:
            wanted = [number for number in wanted if number not in frame.direct]
        found: dict[int, list[Array]] = {number: [] for number in wanted}
        for item in range(self.batch):
            for number, items in enumerate(frame.inputs.items):
                if items:
                    program.io[number].ndarray[: len(items[item])] = items[item]
            program.run(self._mask_of_file, frame.inputs.pixels, after)
            for number, parts in found.items():
                parts.append(self._variant.forms[number].unpack(program.io[number].ndarray))
        stored = [_joined(found.get(number, [])) for number in range(first, len(program.io))]
        return NpuOutputs(self._variant.outs, stored, frame.number)

    @property
    def _mask_of_file(self) -> int:
        """The cores to use: those of the mask that the file has a list of tasks for."""
        mask = self._mask & ((1 << self.soc.cores) - 1)
        return mask if mask in legal_masks(self._variant.program) else 0

    # -- memory -------------------------------------------------------------------------------------------

    def _allocate(self, size: int, flags: int) -> DeviceMemory:
        return self._shared.transport.allocate(size, flags=flags)

    def _import(self, fd: int, size: int, offset: int) -> DeviceMemory:
        return self._shared.transport.import_fd(fd, size, offset)

    # -- figures ------------------------------------------------------------------------------------------

    def perf_table(self) -> PerfTable:
        """One row per node: counts of tasks and command words. No times: the machine's are not those of a chip."""
        from .perf import perf_table

        with self.exclusive():
            if not self._frames.count:
                raise not_run("figures")
            return perf_table(self._variant.program, self._variant.graph, self._mask_of_file, self.soc)

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
            self._compute(_Frame(0, self._frames.inputs, None, {}, internal), recorder.after)
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
        for program in self._programs.values():
            program.close()
        self._shared.release()


def _joined(parts: list[Array]) -> Array:
    if not parts:
        return np.empty(0)
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
