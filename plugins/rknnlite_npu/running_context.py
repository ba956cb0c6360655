"""How a context on an NPU begins frames and computes them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from math import prod
from typing import Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_backend.begun_frames import BegunFrames
from rknnlite_backend.bindings import BoundFrame
from rknnlite_backend.cache_coherence import has_sides
from rknnlite_backend.running import not_prepared, partly_bound

from rknnlite.spi import CustomOp, Input
from rknnlite.spi.exclusive import debugging
from rknnlite.tensor import DType, Layout

from .cores import legal_masks
from .frames import FrameInputs, Frames, NpuOutputs
from .lanes import Lanes
from .loaded_program import LoadedProgram
from .machine.refused import MachineRefused
from .opened_model import OpenedModel, ShapeVariant
from .transport import DeviceMemory, SharedTransport

__all__ = ["NpuFrame", "RunningContext"]

Bytes = NDArray[np.uint8]
_DEBUG = "RKNNLITE_DEBUG"


@dataclass
class NpuFrame:
    """A frame that is about to be computed."""

    number: int
    inputs: FrameInputs
    bound: Optional[BoundFrame]
    direct: dict[int, DeviceMemory]
    """Memory that the NPU itself reads or writes, by the number of the input or output (inputs first)."""
    internal_memory: AbstractContextManager[None]


@dataclass(frozen=True)
class _OwnMemory:
    """What a frame is whose inputs and outputs are all the NPU's own memory, as long as nothing else is bound."""

    variant: ShapeVariant
    changes: int
    inputs: FrameInputs
    direct: dict[int, DeviceMemory]


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
    _ops: dict[str, CustomOp]
    _batch_cores: int
    """Of ``set_batch_core_num``; 0: as many as the mask has."""
    _lanes: Lanes | None = None
    _own_memory: _OwnMemory | None = None
    _mask_in_use: tuple[int, ShapeVariant | None, int] = (0, None, 0)

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
        pixels = bool(pictures) and all(pictures) and self._program.words.takes_pixels
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
            own = self._in_own_memory()
            if own is not None:
                return NpuFrame(frames.begin(), own.inputs, None, own.direct, internal_memory)
            bound = self._bound_frame()
            inputs, direct = self._converted(self._with_bound(bound), self._direct())
            if len(direct) == len(self._program.io) and not (self.mixed_paths or debugging()):
                self._own_memory = _OwnMemory(self._variant, self._bindings.changes, inputs, direct)
        if inputs is None:
            raise not_prepared()
        return NpuFrame(frames.begin(), inputs, bound, direct, internal_memory)

    def _bound_frame(self) -> BoundFrame:
        """What is bound now."""
        return self._bindings.begin(self._places(), self._variant.native_inputs, self.mixed_paths)

    def _in_own_memory(self) -> _OwnMemory | None:
        """What the last frame was, where nothing has changed and nothing is to be read or written for it."""
        own = self._own_memory
        if own is None or own.variant is not self._variant or own.changes != self._bindings.changes:
            self._own_memory = None
        elif not any(map(has_sides, own.direct.values())) and _DEBUG not in os.environ:
            return own
        return None

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
        if frame.direct and frame.bound is None:
            frame.bound = self._bound_frame()
        items = list(frame.inputs.items)
        for number, memory in frame.direct.items():
            if number < len(items):
                items[number] = [memory.ndarray[: self._variant.forms[number].nbytes].copy()]
        frame.inputs, frame.direct = FrameInputs(items, frame.inputs.pixels), {}

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
        program, forms, first = self._program, self._variant.forms, len(self._variant.ins)
        program.place_all(frame.direct)
        contents = program.contents
        found: list[list[Bytes]] = [[] for _ in forms[first:]]
        lanes = None if after is not None or self.batch == 1 else self._lanes_in_use()
        if lanes is not None:
            self._compute_in_lanes(lanes, frame, found)
            return NpuOutputs(self._variant.outs, forms[first:], found, frame.number)
        for item in range(self.batch):
            for number, items in enumerate(frame.inputs.items):
                if items:
                    contents[number][: len(items[item])] = items[item]
            try:
                program.run(self._mask_of_file, frame.inputs.pixels, after)
            except MachineRefused as refused:
                refused.model = self._opened.label
                refused.node_name = "" if refused.node is None else str(program.program.nodes[refused.node])
                raise
            for number, parts in enumerate(found, first):
                if self.mixed_paths or number not in frame.direct:
                    parts.append(contents[number][: forms[number].nbytes].copy())
        return NpuOutputs(self._variant.outs, forms[first:], found, frame.number)

    def _compute_in_lanes(self, lanes: Lanes, frame: NpuFrame, found: list[list[Bytes]]) -> None:
        """The items of a batch on several devices; their outputs in order."""
        first, forms, mask = len(self._variant.ins), self._variant.forms, self._mask_of_file
        left: dict[int, list[Bytes]] = {}

        def run(program: LoadedProgram, item: int) -> None:
            for number, items in enumerate(frame.inputs.items):
                program.contents[number][: len(items[item])] = items[item]
            program.run(mask, frame.inputs.pixels)
            left[item] = [
                program.contents[number][: forms[number].nbytes].copy() for number in range(first, len(forms))
            ]

        lanes.run(self.batch, run)
        for item in range(self.batch):
            for parts, content in zip(found, left[item]):
                parts.append(content)

    def _lanes_in_use(self) -> Lanes | None:
        """As many as cores were asked for, where each needs a device of its own."""
        another = self._shared.another
        wanted = self._batch_cores or bin(self._mask & ((1 << self.soc.cores) - 1)).count("1")
        count = min(wanted, self.batch, self.soc.cores) if another is not None else 1
        lanes = self._lanes
        if lanes is not None and (lanes.count != count or lanes.first is not self._program):
            self._close_lanes()
        if count > 1 and self._lanes is None:
            assert another is not None
            self._lanes = Lanes(self._program, count, another, self._ops)
        return self._lanes

    def _close_lanes(self) -> None:
        lanes, self._lanes = self._lanes, None
        if lanes is not None:
            lanes.close()

    @property
    def _mask_of_file(self) -> int:
        """The cores to use: those of the mask that the file has a list of tasks for; one where the transport divides no job."""
        key = self._mask, self._variant
        if self._mask_in_use[:2] != key:
            mask = self._mask & ((1 << self.soc.cores) - 1) if self._shared.transport.divides else 0
            self._mask_in_use = (*key, mask if mask in legal_masks(self._variant.program) else 0)
        return self._mask_in_use[2]
