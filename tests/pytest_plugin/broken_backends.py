"""The CPU reference with one promise broken, for each promise of the contract test kit."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
from rknnlite_backend.host_memory import HostMemory
from rknnlite_cpu.backend import CpuBackend
from rknnlite_cpu.context import CpuContext

from rknnlite import Context
from rknnlite.errors import InputInvalid, ModelInvalid, ParamInvalid
from rknnlite.formats import ModelFile
from rknnlite.spi import AttrKind, Backend, Input, Memory, OpenOptions, Probe, Versions
from rknnlite.spi.inputs import shapes_of
from rknnlite.tensor import Layout

__all__ = ["DYNAMIC", "FAULTS", "LEAKED", "broken"]

LEAKED: list[int] = []
"""File descriptors to close behind the test."""


class Plain:
    """A context that does nothing wrong."""


class Sound(CpuBackend):
    """The CPU reference under another name, whose contexts are of a further class."""

    name = "broken"
    kind: type = Plain

    def open(self, model: ModelFile, options: OpenOptions) -> Context:
        kind = type("Broken", (self.kind, Named, CpuContext), {})
        with mock.patch("rknnlite_cpu.context.CpuContext", kind):
            return super().open(model, options)


class Named:
    backend_name = "broken"

    def dup(self: Any) -> Any:
        with mock.patch("rknnlite_cpu.context.CpuContext", type(self)):
            return super().dup()  # type: ignore[misc]


def plus(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [array + array.dtype.type(3) for array in arrays]


# -- test_backend ------------------------------------------------------------------------------------------


class Spaced(Sound):
    name = "broken one"

    class kind:
        backend_name = "broken one"


class OtherGeneration(Sound):
    generations = ("rknpu1", "rknpu2", "rknpu3", "rknpu9")  # type: ignore[assignment]


class NoDot(Sound):
    suffixes = ("rknn",)


class NoReason(Sound):
    def probe(self) -> Probe:
        return Probe(True, "")


class Slow(Sound):
    def probe(self) -> Probe:
        if sys._getframe(1).f_code.co_name == "test_probe_is_cheap":  # the others would take minutes
            time.sleep(1.05)
        return super().probe()


class Texts(Sound):
    def devices(self) -> list[Any]:
        return ["a"]

    def boards(self, device_id: str) -> list[str]:
        return []


class EveryDevice(Sound):
    def boards(self, device_id: str) -> list[str]:
        return [device_id]


class Refuses(Sound):
    def refuses(self, model: ModelFile) -> str | None:
        _ = model.model
        return None


class Foreign(Sound):
    def open(self, model: ModelFile, options: OpenOptions) -> Context:
        if model.path is None and bytes(model.data[:4]) != b"RKNN":
            raise ValueError("what is this?")
        return super().open(model, options)


class Absent(Sound):
    def open(self, model: ModelFile, options: OpenOptions) -> Context:
        if model.path is not None:
            model.path.stat()
        return super().open(model, options)


class Half(Sound):
    def open(self, model: ModelFile, options: OpenOptions) -> Context:
        try:
            return super().open(model, options)
        except ModelInvalid:
            if bytes(model.data[:4] if model.path is None else b"") == b"RKNN":
                raise KeyError("tensors") from None
            raise


class MaskAtOpen(Sound):
    def open(self, model: ModelFile, options: OpenOptions) -> Context:
        return super().open(model, replace(options, core_mask=None))


# -- test_context ------------------------------------------------------------------------------------------


class OtherName:
    backend_name = "cpu"


class NoVersion:
    versions = Versions(api="", driver="none")


class OtherSoc:
    @property
    def soc(self: Any) -> Any:
        return super().soc._replace(generation="rknpu9")  # type: ignore[misc]


class Platform:
    platform = "RKNN RK3588"


class Batch:
    batch = np.int64(1)


class Indexes:
    @property
    def outputs(self: Any) -> Any:
        return [replace(attr, index=0) for attr in super().outputs]  # type: ignore[misc]


class Current:
    def attrs(self: Any, kind: AttrKind) -> Any:
        return [] if kind is AttrKind.CURRENT_OUTPUT else super().attrs(kind)  # type: ignore[misc]


class NoSeven:
    def set_core_mask(self: Any, mask: int) -> None:
        if mask == 7:
            raise ParamInvalid("three cores are too many")
        super().set_core_mask(mask)  # type: ignore[misc]


class AnyMask:
    def set_core_mask(self: Any, mask: int) -> None:
        if mask in self.soc.masks:
            super().set_core_mask(mask)  # type: ignore[misc]


# -- test_frames -------------------------------------------------------------------------------------------


class Doubles:
    def get_outputs(self: Any, want_float: bool = True) -> Any:
        found = super().get_outputs(want_float)  # type: ignore[misc]
        return [array.astype(np.float64) for array in found] if want_float else found


class Constant:
    def set_inputs(self: Any, inputs: Sequence[Input]) -> None:
        super().set_inputs(  # type: ignore[misc]
            [item if item.pass_through else replace(item, data=np.zeros_like(item.data)) for item in inputs]
        )


class Planes:
    def set_inputs(self: Any, inputs: Sequence[Input]) -> None:
        super().set_inputs(  # type: ignore[misc]
            [
                replace(item, data=item.data[:, ::-1]) if item.layout is Layout.NCHW else item
                for item in inputs
            ]
        )


class Order:
    def set_inputs(self: Any, inputs: Sequence[Input]) -> None:
        if inputs and inputs[0].index:
            inputs = [replace(item, data=np.zeros_like(item.data)) for item in inputs]
        super().set_inputs(inputs)  # type: ignore[misc]


class Writes:
    def set_inputs(self: Any, inputs: Sequence[Input]) -> None:
        super().set_inputs(inputs)  # type: ignore[misc]
        for item in inputs:
            if item.data.flags.writeable:
                item.data[...] = 0


class Later:
    def set_inputs(self: Any, inputs: Sequence[Input]) -> None:
        super().set_inputs(inputs)  # type: ignore[misc]
        self._given = inputs

    def run(self: Any) -> None:
        work = self._work
        if hasattr(self, "_given"):
            super().set_inputs(self._given)  # type: ignore[misc]
        self._work = work
        super().run()  # type: ignore[misc]


class Shared:
    def run(self: Any) -> None:
        super().run()  # type: ignore[misc]
        self._handed = None

    def start(self: Any, timeout_ms: int = 0) -> Any:
        self._handed = None
        return super().start(timeout_ms)  # type: ignore[misc]

    def get_outputs(self: Any, want_float: bool = True) -> Any:
        found = super().get_outputs(want_float)  # type: ignore[misc]
        if not want_float:
            return found
        self._handed = getattr(self, "_handed", None) or found
        return list(self._handed)


class RunsAlways:
    def set_inputs(self: Any, inputs: Sequence[Input]) -> None:
        super().set_inputs(inputs)  # type: ignore[misc]
        self._was_set = True

    def run(self: Any) -> None:
        if hasattr(self, "_was_set"):
            super().run()  # type: ignore[misc]

    def bind(self: Any, attr: Any, mem: Memory) -> None:
        super().bind(attr, mem)  # type: ignore[misc]
        self._was_set = True


class OutputsAlways:
    def run(self: Any) -> None:
        super().run()  # type: ignore[misc]
        self._has_run = True

    def get_outputs(self: Any, want_float: bool = True) -> Any:
        if hasattr(self, "_has_run") or hasattr(self, "_frames"):
            return super().get_outputs(want_float)  # type: ignore[misc]
        return [np.zeros(attr.dims, np.float32) for attr in self.outputs]


class Stored:
    def get_outputs(self: Any, want_float: bool = True) -> Any:
        found = super().get_outputs(want_float)  # type: ignore[misc]
        return found if want_float else plus(found)


class Nowhere:
    def get_outputs_into(self: Any, arrays: Sequence[Any], want_float: bool = True) -> None:
        arrays[0][...] = 0


class Crops:
    def set_inputs(self: Any, inputs: Sequence[Input]) -> None:
        super().set_inputs(  # type: ignore[misc]
            [replace(i, data=i.data[..., :3]) if i.data.shape[-1] == 32 else i for i in inputs]
        )


class NoInputs:
    def set_inputs(self: Any, inputs: Sequence[Input]) -> None:
        if inputs:
            super().set_inputs(inputs)  # type: ignore[misc]


class Bytes:
    def set_inputs(self: Any, inputs: Sequence[Input]) -> None:
        super().set_inputs(  # type: ignore[misc]
            [replace(i, data=i.data[:-1]) if i.pass_through and i.data.ndim == 1 else i for i in inputs]
        )


class Took:
    last_run_us = 5


# -- test_shapes -------------------------------------------------------------------------------------------


class TupleOfShapes:
    @property
    def shapes(self: Any) -> Any:
        return tuple(super().shapes)  # type: ignore[misc]


class AnyStatic:
    def set_shapes(self: Any, shapes: Any) -> None:
        if self.shapes:
            super().set_shapes(shapes)  # type: ignore[misc]


class Lists:
    def set_shapes(self: Any, shapes: Any) -> None:
        super().set_shapes(shapes)  # type: ignore[misc]
        self._lists = True

    @property
    def inputs(self: Any) -> Any:
        found = super().inputs  # type: ignore[misc]
        return [replace(attr, dims=list(attr.dims)) for attr in found] if hasattr(self, "_lists") else found


class Stale:
    _stale: Any = None

    def set_shapes(self: Any, shapes: Any) -> None:
        before = self.outputs
        super().set_shapes(shapes)  # type: ignore[misc]
        self._stale = before

    def run(self: Any) -> None:
        super().run()  # type: ignore[misc]
        self._stale = None

    @property
    def outputs(self: Any) -> Any:
        return self._stale or super().outputs  # type: ignore[misc]


class NotFollowing:
    def follow_shapes(self: Any, inputs: Any, passed_through: bool = False) -> None:
        if self.shapes and shapes_of(inputs) != [attr.dims for attr in self.inputs]:
            raise InputInvalid("other shapes than the current ones")
        self._shape_chosen = True


class AnyRank:
    def set_shapes(self: Any, shapes: Any) -> None:
        if all(len(shape) < 5 for shape in shapes):
            super().set_shapes(shapes)  # type: ignore[misc]


# -- test_memory -------------------------------------------------------------------------------------------


class OwnMemory:
    """Contexts whose memory is of a further class."""

    kind_of_memory: type = HostMemory

    def create_mem(self: Any, size: int, flags: int = 0) -> Memory:
        made = super().create_mem(size, flags)  # type: ignore[misc]
        made.__class__ = self.kind_of_memory
        self._made = [*getattr(self, "_made", []), made]
        return made


class Copies(OwnMemory):
    class kind_of_memory(HostMemory):
        __slots__ = ()

        @property
        def ndarray(self: Any) -> Any:
            found = super().ndarray  # type: ignore[misc]
            return found.copy() if self.size == 4096 else found


class OpenForever(OwnMemory):
    class kind_of_memory(HostMemory):
        __slots__ = ()
        ended = False

        @property
        def ndarray(self: Any) -> Any:
            return np.zeros(8, np.uint8) if self.closed and not self.ended else super().ndarray  # type: ignore[misc]

    def _release(self: Any) -> None:
        for made in getattr(self, "_made", []):
            made.ended = True
        super()._release()  # type: ignore[misc]


class OutlivesContext(OwnMemory):
    class kind_of_memory(HostMemory):
        __slots__ = ()
        ended = False

        @property
        def ndarray(self: Any) -> Any:
            return np.zeros(8, np.uint8) if self.ended else super().ndarray  # type: ignore[misc]

    def _release(self: Any) -> None:
        for made in getattr(self, "_made", []):
            made.ended = not made.closed
        super()._release()  # type: ignore[misc]


class Lost:
    def sync(self: Any, mem: Memory, direction: str) -> None:
        super().sync(mem, direction)  # type: ignore[misc]
        if direction == "from_device":
            mem.ndarray[:] = 0


class AnySize:
    def create_mem(self: Any, size: int, flags: int = 0) -> Memory:
        made: Memory = super().create_mem(max(size, 1), flags)  # type: ignore[misc]
        return made


# -- test_life ---------------------------------------------------------------------------------------------


class RunsClosed:
    def run(self: Any) -> None:
        if not self.closed:
            super().run()  # type: ignore[misc]


class Crowded:
    def run(self: Any) -> None:
        if self._owner.acquire(False):
            self._owner.release()
            super().run()  # type: ignore[misc]


class Leaks:
    def _release(self: Any) -> None:
        LEAKED.append(os.open(os.devnull, os.O_RDONLY))
        super()._release()  # type: ignore[misc]


class Twice:
    def close(self: Any) -> None:
        if self.closed and "_release" in vars(self):  # the test's, which counts
            self._release()
        super().close()  # type: ignore[misc]


class Cycle:
    def run(self: Any) -> None:
        self._self = self
        super().run()  # type: ignore[misc]


class InThreads:
    threads = ""

    def get_outputs(self: Any, want_float: bool = True) -> Any:
        found = super().get_outputs(want_float)  # type: ignore[misc]
        return plus(found) if threading.current_thread().name.startswith(self.threads) else found


class SideBySide(InThreads):
    threads = "Thread-"


class Unwaited(InThreads):
    threads = "rknnlite-async"


class Pooled(InThreads):
    threads = "rknnlite-pool"


class Twins:
    def dup(self: Any) -> Any:
        self._twin = super().dup()  # type: ignore[misc]
        return self._twin

    def _release(self: Any) -> None:
        if hasattr(self, "_twin"):
            self._twin.close()
        super()._release()  # type: ignore[misc]


class Begun:
    _frames = 0

    def start(self: Any, timeout_ms: int = 0) -> Any:
        self._frames = 1
        return super().start(timeout_ms)  # type: ignore[misc]

    def get_outputs(self: Any, want_float: bool = True) -> Any:
        found = super().get_outputs(want_float)  # type: ignore[misc]
        return plus(found) if self._frames else found


class NoAnswer:
    def limit_threads(self: Any, count: int) -> Any:
        super().limit_threads(count)  # type: ignore[misc]


class FilesOnly(Sound):
    def open(self, model: ModelFile, options: OpenOptions) -> Context:
        if model.path is None:
            raise ModelInvalid("give a file")
        return super().open(model, options)


FAULTS: dict[str, type] = {
    "test_its_name_is_a_word": Spaced,
    "test_its_generations_exist": OtherGeneration,
    "test_its_suffixes_begin_with_a_dot": NoDot,
    "test_probe_answers_a_probe": NoReason,
    "test_probe_is_cheap": Slow,
    "test_devices_are_devices": Texts,
    "test_an_unknown_device_stands_for_nothing": EveryDevice,
    "test_refuses_answers_a_reason_or_none": Refuses,
    "test_a_file_of_something_else_is_no_model": Foreign,
    "test_a_file_that_is_not_there_is_no_model": Absent,
    "test_half_a_model_is_no_model": Half,
    "test_an_illegal_core_mask_does_not_open": MaskAtOpen,
    "test_it_names_its_backend": OtherName,
    "test_versions_are_texts": NoVersion,
    "test_the_soc_is_one_of_the_table": OtherSoc,
    "test_the_platform_is_a_word": Platform,
    "test_a_batch_is_a_number": Batch,
    "test_attributes_are_complete": Indexes,
    "test_current_attributes_are_those_of_the_current_shapes": Current,
    "test_legal_core_masks_are_taken": NoSeven,
    "test_an_illegal_core_mask_is_refused": AnyMask,
    "test_outputs_are_float32_of_the_announced_shapes": Doubles,
    "test_outputs_depend_on_the_inputs": Constant,
    "test_planes_are_the_same_picture": Planes,
    "test_inputs_come_in_any_order": Order,
    "test_inputs_are_left_as_they_are": Writes,
    "test_inputs_are_taken_when_they_are_set": Later,
    "test_outputs_are_the_callers": Shared,
    "test_nothing_runs_before_inputs_are_set": RunsAlways,
    "test_there_are_no_outputs_before_a_run": OutputsAlways,
    "test_stored_outputs_mean_the_same_numbers": Stored,
    "test_outputs_are_written_where_the_caller_wants": Nowhere,
    "test_a_wrong_shape_is_refused_and_the_next_frame_is_right": Crops,
    "test_a_missing_input_is_refused": NoInputs,
    "test_elements_that_pass_through_have_the_tensors_size": Bytes,
    "test_the_time_of_a_run_is_told": Took,
    "test_shapes_are_one_for_each_input": TupleOfShapes,
    "test_a_static_model_takes_no_other_shapes": AnyStatic,
    "test_chosen_shapes_are_in_force": Lists,
    "test_outputs_follow_the_chosen_shapes": Stale,
    "test_a_frame_has_the_shapes_of_its_arrays": NotFollowing,
    "test_shapes_that_the_model_lacks_are_refused": AnyRank,
    "test_memory_is_a_view_of_bytes": Copies,
    "test_memory_is_closed_once": OpenForever,
    "test_memory_ends_with_its_context": OutlivesContext,
    "test_bound_memory_is_what_a_run_reads_and_writes": Lost,
    "test_foreign_sizes_of_memory_are_refused": AnySize,
    "test_a_closed_context_is_told": RunsClosed,
    "test_a_second_thread_is_refused": Crowded,
    "test_close_gives_everything_back": Leaks,
    "test_release_is_called_once": Twice,
    "test_a_context_that_nobody_holds_is_freed": Cycle,
    "test_contexts_run_side_by_side": SideBySide,
    "test_calls_that_nobody_waits_for": Unwaited,
    "test_a_duplicate_lives_by_itself": Twins,
    "test_frames_are_begun_and_waited_for": Begun,
    "test_threads_are_limited_or_not": NoAnswer,
    "test_a_program_for_the_vendors_class": FilesOnly,
    "test_a_pool_of_two_workers": Pooled,
}
"""Test of the kit -> what breaks its promise: a backend, or what its contexts do."""

DYNAMIC = {TupleOfShapes, Lists, Stale, NotFollowing, AnyRank, Crops}
"""What needs a model of dynamic shapes to be seen."""


def broken(fault: type) -> Backend:
    """The backend with this fault."""
    if issubclass(fault, Sound):
        return fault()
    backend = Sound()
    backend.kind = fault
    return backend
