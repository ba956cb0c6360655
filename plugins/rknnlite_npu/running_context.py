"""How a context on an NPU begins frames and computes them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from math import prod
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_backend.begun_frames import BegunFrames
from rknnlite_backend.bindings import BoundFrame
from rknnlite_backend.cache_coherence import has_sides
from rknnlite_backend.running import not_prepared, partly_bound

from rknnlite.spi import Input
from rknnlite.tensor import DType, Layout

from .cores import legal_masks
from .frames import FrameInputs, Frames, NpuOutputs
from .loaded_program import LoadedProgram
from .machine.refused import MachineRefused
from .opened_model import OpenedModel, ShapeVariant
from .transport import DeviceMemory, SharedTransport

__all__ = ["NpuFrame", "RunningContext"]

Array = NDArray[Any]
Bytes = NDArray[np.uint8]


@dataclass
class NpuFrame:
    """A frame that is about to be computed."""

    number: int
    inputs: FrameInputs
    bound: Optional[BoundFrame]
    direct: dict[int, DeviceMemory]
    """Memory that the NPU itself reads or writes, by the number of the input or output (inputs first)."""
    internal_memory: AbstractContextManager[None]


class RunningContext(BegunFrames[NpuFrame]):
    """Begins frames and computes them. The parts belong to the subclass.

    Memory that is bound in a tensor's native form is what the NPU itself reads and writes; any other form is converted.
    """

    _opened: OpenedModel
    _variant: ShapeVariant
    _program: LoadedProgram
    _frames: Frames
    _mask: int
    _shared: SharedTransport

    @property
    def _newest(self) -> int | None:
        return self._frames.newest

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

    def _begin(self) -> NpuFrame:
        self._opened.check_runs()
        internal_memory, frames = self._bindings.hold_internal(), self._frames
        bound, direct = None, dict[int, DeviceMemory]()
        inputs = frames.inputs
        if self._bindings.bound:
            bound = self._bindings.begin(self._places(), self._variant.native_inputs, self.mixed_paths)
            inputs, direct = self._converted(self._with_bound(bound), self._direct())
        if inputs is None:
            raise not_prepared()
        return NpuFrame(frames.begin(), inputs, bound, direct, internal_memory)

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

    def _keep_inputs(self, frame: NpuFrame) -> None:
        """Those that are not the NPU's own memory are copies; the others become so, and results are written when the frame ends."""
        for number, memory in frame.direct.items():
            if number < len(self._variant.ins):
                frame.inputs.items[number] = [memory.ndarray[: self._variant.forms[number].nbytes].copy()]
        frame.direct.clear()

    def _make(self, begun: NpuFrame) -> None:
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

    def _compute(self, frame: NpuFrame, after: Callable[[int], None] | None = None) -> NpuOutputs:
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
            try:
                program.run(self._mask_of_file, frame.inputs.pixels, after)
            except MachineRefused as refused:
                refused.model = self._opened.label
                refused.node_name = "" if refused.node is None else str(program.program.nodes[refused.node])
                raise
            for number, parts in found.items():
                parts.append(self._variant.forms[number].unpack(program.io[number].ndarray))
        stored = [_joined(found.get(number, [])) for number in range(first, len(program.io))]
        return NpuOutputs(self._variant.outs, stored, frame.number)

    @property
    def _mask_of_file(self) -> int:
        """The cores to use: those of the mask that the file has a list of tasks for; one where the transport divides no job."""
        if not self._shared.transport.divides:
            return 0
        mask = self._mask & ((1 << self.soc.cores) - 1)
        return mask if mask in legal_masks(self._variant.program) else 0


def _joined(parts: list[Array]) -> Array:
    if not parts:
        return np.empty(0)
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
