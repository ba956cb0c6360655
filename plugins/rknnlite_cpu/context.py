"""One model on the CPU reference."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rknnlite_backend.bindings import Bindings
from rknnlite_backend.running import check_dup, in_order, no_data

from rknnlite._version import __version__
from rknnlite.errors import ContextInvalid, ParamInvalid
from rknnlite.spi import CustomOp, Input, PostProcess, Versions
from rknnlite.spi.custom_op import as_custom_op, distinct
from rknnlite.tensor import TensorAttr

from .fidelity import Fidelity
from .kernels.buffers import trim
from .observers import Changer, Feeder, Watches
from .opened_model import ContextSettings, OpenedModel
from .running_context import RecentRuns, RunningContext, unshared
from .shape_variant import PreparedShapes
from .values import Array

if TYPE_CHECKING:
    from rknnlite_backend.perf import MemorySize, PerfTable
    from rknnlite_insight.dumps import Dump

    from .plan import Watch
    from .shape_variant import ShapeVariant

__all__ = ["CpuContext"]


class CpuContext(RunningContext):
    """Prepares the graph on opening; a dynamic model prepares each shape when it is first chosen.

    It is made of parts, and ``dup`` is told by what happens to each: the opened model is shared, shapes get a twin,
    settings a copy; runs, bindings and what follows from other parts begin anew.
    """

    def __init__(
        self,
        opened: OpenedModel,
        shapes: PreparedShapes | None = None,
        settings: ContextSettings | None = None,
    ) -> None:
        super().__init__(Bindings(opened.coherence, opened.outside))
        self._opened = opened
        self._settings = settings or ContextSettings.of(opened.options)
        self._post = opened.postprocess()
        self._shapes = shapes or PreparedShapes.of(opened)
        self._shape_chosen = not opened.model.dynamic
        self._runs = RecentRuns()
        self._take_attrs()

    # -- what it is ---------------------------------------------------------------------------------------

    @property
    def backend_name(self) -> str:
        return "cpu"

    @property
    def inputs(self) -> list[TensorAttr]:
        return self._attrs.inputs

    @property
    def outputs(self) -> list[TensorAttr]:
        return self._attrs.outputs

    @property
    def native_inputs(self) -> list[TensorAttr]:
        return list(self._attrs.native_inputs)

    @property
    def native_outputs(self) -> list[TensorAttr]:
        return list(self._attrs.native_outputs)

    @property
    def _has_post(self) -> bool:
        return self._post is not None

    @property
    def versions(self) -> Versions:
        return Versions(api=f"rknnlite CPU reference {__version__}", driver="none (CPU)")

    @property
    def frame_id(self) -> int | None:
        return self._runs.fetched if self._opened.options.async_mode else None

    @property
    def last_run_us(self) -> int:
        return self._runs.last_us

    # -- settings -----------------------------------------------------------------------------------------

    def set_core_mask(self, mask: int) -> None:
        with self.exclusive():
            self.soc.check_core_mask(mask)
            self._settings.core_mask = mask

    def set_batch_core_num(self, count: int) -> None:
        """How many items of a batch are computed side by side; legal where core masks are."""
        with self.exclusive():
            self.soc.check_batch_cores(count)
            self._settings.lanes = count

    def limit_threads(self, count: int) -> bool:
        with self.exclusive():
            self._settings.limit_threads(count)
        return True

    def set_shapes(self, shapes: Sequence[Sequence[int]]) -> None:
        with self.step():
            self._settle()
            self._shapes.choose(shapes, self.shapes)
            self._take_attrs()
            self._shape_chosen = True

    def _take_attrs(self) -> None:
        """Tell about the shape that was selected, and let go what belongs to the one before."""
        self._attrs = self._shapes.current.attrs
        if self._post is not None:
            self._attrs = self._attrs.with_outputs(self._post.open(self._attrs.inputs, self._attrs.outputs))
        self._runs.forget_inputs()
        self._bindings.clear()

    def register_ops(self, ops: Sequence[CustomOp]) -> None:
        """Take operators over; also after the first run. ``init`` runs here for every shape in use so far."""
        with self.step():
            self._settle()
            for op in distinct(map(as_custom_op, ops)):
                self._shapes.register(op)

    def register_postprocess(self, plugin: str | os.PathLike[str] | PostProcess) -> None:
        """Open the plugin for the shapes in use. Raises ContextInvalid after a run, ParamInvalid for a second one."""
        with self.step():
            if self._post is not None or self._runs.count:
                why = "the model has run already" if self._post is None else "a plugin is registered already"
                raise ContextInvalid(f"{why}; open the model again to register a post-process plugin")
            from .postprocess import chosen

            post = chosen(plugin)
            if post is not None:
                outputs = post.open(self._attrs.inputs, self._attrs.outputs)
                self._attrs = self._attrs.with_outputs(outputs)
            self._post = post

    # -- common path --------------------------------------------------------------------------------------

    def set_inputs(self, inputs: Sequence[Input]) -> None:
        outer = self.begin_step()
        try:
            self._opened.check_runs()
            bound = self._bindings.bound
            if bound:
                self._check_path()
            ordered = in_order(inputs, self._attrs.inputs, self._opened.label)
            if self._opened.model.dynamic:
                self.follow_shapes(inputs)
            self._runs.inputs = [
                unshared(feed.values(item), item) for feed, item in zip(self._shapes.current.feeds, ordered)
            ]
            self._runs.set_by_caller = self._runs.inputs
            if bound:
                self._bindings.clear_inputs()
            self._common = True
        finally:
            self.end_step(outer)

    def get_outputs(self, want_float: bool = True) -> list[Array]:
        """Outputs of the last run; in async mode of the one before it (the first run answers for itself).

        Waits for a frame that is under way, and raises what it raised.
        """
        outer = self.begin_step()
        try:
            self._check_path()
            frame = self._answer()
            if frame.post is not None:
                from .postprocess import converted

                return converted(frame.post, self.outputs, want_float)
            return frame.floats() if want_float else frame.elements()
        finally:
            self.end_step(outer)

    # -- figures ------------------------------------------------------------------------------------------

    def perf_table(self) -> PerfTable:
        """Figures per layer of the last timed run; without one the last inputs are run once more, timed."""
        with self.exclusive():
            self._settle()
            runs, current = self._runs, self._shapes.current
            if runs.seconds is None:
                inputs = self._inputs_for("figures per layer")
                from .observers import Stopwatch

                watch = Stopwatch()
                self._compute(current, inputs, watch)
                runs.timed(watch.seconds)
            return self._table(current)

    def memory(self) -> MemorySize:
        """What the model needs on the NPU, from the sizes that the file states; not what this process holds."""
        from .perf import memory_size

        with self.exclusive():
            file_size = len(self._opened.file.data)
            return memory_size(self._shapes.current.graph, file_size, self.batch, self.soc)

    def dump(
        self,
        directory: str | os.PathLike[str],
        golden: Dump | None = None,
        *,
        change: Callable[[str, Array], Array] | None = None,
    ) -> Dump:
        """See ``Context``. ``change`` gets name and value of each tensor of a run in float and returns what stands in its place,
        for nodes that read it and in the dump (not for operands that ``golden`` has)."""
        if change is not None and (self._opened.fidelity is not Fidelity.FLOAT or self.batch > 1):
            raise ParamInvalid("values are changed with fidelity='float' and without a batch only")
        with self.exclusive():
            self._settle()
            current, inputs = self._shapes.current, self._inputs_for("a dump")
            writer = self._opened.dump_writer(directory)
            feeder = _feeder(current, golden, change)
            items = self._compute(current, inputs, None, writer, feeder)
            if self._post is not None:
                from .postprocess import converted

                results = self._post.compute(self._framed(current, items).elements())
                for attr, raw, real in zip(self.outputs, results, converted(results, self.outputs, True)):
                    writer.add(attr.name, real, raw, dtype=attr.dtype.short, op="PostProcess", role="output")
            return writer.close()

    def _inputs_for(self, what: str) -> list[list[Array]]:
        if self._runs.inputs is None:
            raise no_data(what)
        return self._runs.inputs

    # -- life ---------------------------------------------------------------------------------------------

    def dup(self) -> CpuContext:
        with self.exclusive():
            self._settle()
            check_dup(self._opened.label, bool(self.shapes), self.soc)
            return CpuContext(self._opened, self._shapes.twin(), replace(self._settings))

    def _release(self) -> None:
        self._give_up()
        if self._post is not None:
            self._post.close()
        self._shapes.close()
        self._runs.drop_arrays()
        self._bindings.close()
        trim()


def _feeder(
    current: ShapeVariant, golden: Dump | None, change: Callable[[str, Array], Array] | None
) -> Watch | None:
    graph = current.plan.graph
    feeder = None if golden is None else Feeder(graph, golden)
    return feeder if change is None else Watches(Changer(graph, change), feeder)
