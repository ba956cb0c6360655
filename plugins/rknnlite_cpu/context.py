"""One model on the CPU reference."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rknnlite._version import __version__
from rknnlite.errors import ContextInvalid, InputInvalid, ParamInvalid
from rknnlite.formats import NO_ATTRIBUTES, Attributes, IoTensor, Model, ModelFile
from rknnlite.formats.tensor_attrs import default_attr
from rknnlite.graph import Graph
from rknnlite.layout import nchw_to_nhwc_shape
from rknnlite.log import level, logger
from rknnlite.socs import Soc
from rknnlite.spi import CustomOp, Input, OpenOptions, PostProcess, Versions
from rknnlite.spi.custom_op import as_custom_op, distinct
from rknnlite.spi.dumps import Dump, DumpWriter, default_folder
from rknnlite.spi.perf import CoreMemory, MemorySize, PerfTable
from rknnlite.spi.zero_copy import MIXED
from rknnlite.tensor import TensorAttr

from .cache_coherence import CacheCoherence
from .feed import InputFeed
from .fidelity import Fidelity, FloatFeed, graph_for
from .frame import Frame
from .kernels.buffers import trim
from .kernels.parallel import run_items
from .kernels.threads import cores, limited
from .node_view import Array
from .observers import Feeder, Recorder, Stopwatch, Watches, memory_size, perf_table
from .plan import ExecutionPlan, Watch
from .postprocess import chosen, converted
from .zerocopy import ZeroCopyContext, lender

__all__ = ["CpuContext"]

MOST_LANES = 3  # the runtime keeps two copies of a context for a batch, so three items at most run at once


class CpuContext(ZeroCopyContext):
    """Prepares the graph on opening; a dynamic model prepares each shape when it is first chosen."""

    def __init__(self, file: ModelFile, soc: Soc, options: OpenOptions) -> None:
        super().__init__()
        self._set_up(file, soc, options)
        if options.core_mask:
            soc.check_core_mask(options.core_mask)
        self._select(self._model.default_shape)
        file.drop_pages()  # weights are unpacked by now

    def _set_up(self, file: ModelFile, soc: Soc, options: OpenOptions) -> None:
        """Fields that need no graph."""
        self._file = file
        self._label = file.label
        self._model = file.model
        self._model.master = lender(self._label, options.extra.get("master"), self._model.dynamic)
        self._soc = soc
        self._ops = {op.op_type: op for op in options.custom_ops}
        self._post = chosen(options.extra.get("postprocess"))
        self._fidelity = Fidelity.of(options.extra.get("fidelity", Fidelity.NPU))
        self._attributes: Attributes = options.extra.get("attributes") or NO_ATTRIBUTES
        asked = level() or 0  # RKNN_LOG_LEVEL
        self._logs = asked >= 4 or options.verbose
        self._times = self._logs or bool(options.extra.get("collect_perf"))
        self._dumps = asked >= 5
        self._seconds: Mapping[int, float] | None = None
        self._table: PerfTable | None = None
        self._graphs: dict[int, Graph] = {}
        self._programs: dict[int, ExecutionPlan] = {}
        self._io: dict[int, tuple[list[IoTensor], list[IoTensor]]] = {}
        self._feeds: list[InputFeed | FloatFeed] = []
        self._values: list[list[Array]] | None = None
        self._results: Frame | None = None
        self._previous: Frame | None = None
        self._async = options.async_mode
        self._fetched = 0
        self._options = options
        self._outside = options.extra.get("outside")
        self._coherence = CacheCoherence(
            *(options.extra.get(f"flush_{way}puts", True) for way in ("in", "out"))
        )
        self._threads = max(1, min(options.threads or cores(), cores()))
        self._lanes = MOST_LANES
        self._last_run_us = self._frames = 0
        self._core_mask = options.core_mask or 0
        self._shape_chosen = not self._model.dynamic

    # -- what it is ---------------------------------------------------------------------------------------

    @property
    def backend_name(self) -> str:
        return "cpu"

    @property
    def inputs(self) -> list[TensorAttr]:
        return self._inputs

    @property
    def outputs(self) -> list[TensorAttr]:
        return self._outputs

    def _io_tensors(self) -> tuple[list[IoTensor], list[IoTensor]]:
        return self._io[self._current]

    @property
    def lent(self) -> Model:
        return self._model

    @property
    def _has_post(self) -> bool:
        return self._post is not None

    @property
    def versions(self) -> Versions:
        return Versions(api=f"rknnlite CPU reference {__version__}", driver="none (CPU)")

    @property
    def soc(self) -> Soc:
        return self._soc

    @property
    def batch(self) -> int:
        return self._model.batch

    @property
    def shapes(self) -> list[list[tuple[int, ...]]]:
        return [[nchw_to_nhwc_shape(shape) for shape in shapes] for shapes in self._model.shapes]

    @property
    def custom_string(self) -> str:
        return self._model.custom_string

    @property
    def frame_id(self) -> int | None:
        return self._fetched if self._async else None

    @property
    def last_run_us(self) -> int:
        return self._last_run_us

    # -- settings -----------------------------------------------------------------------------------------

    def set_core_mask(self, mask: int) -> None:
        with self.exclusive():
            self._soc.check_core_mask(mask)
            self._core_mask = mask

    def set_batch_core_num(self, count: int) -> None:
        """How many items of a batch are computed side by side; legal where core masks are."""
        with self.exclusive():
            self._soc.check_batch_cores(count)
            self._lanes = count

    def limit_threads(self, count: int) -> bool:
        with self.exclusive():
            self._threads = max(1, min(count, cores()))
        return True

    def set_shapes(self, shapes: Sequence[Sequence[int]]) -> None:
        with self.exclusive():
            wanted = [tuple(int(d) for d in shape) for shape in shapes]
            legal = self.shapes
            if not legal:
                raise ParamInvalid(f"{self._label} has static shapes: {[list(a.dims) for a in self.inputs]}")
            for number, candidate in enumerate(legal):
                if wanted == candidate:
                    self._select(number)
                    self._shape_chosen = True
                    return
            listed = "; ".join(str([list(s) for s in candidate]) for candidate in legal)
            raise ParamInvalid(
                f"{self._label}: input shapes {[list(s) for s in wanted]} are not among the model's: {listed}"
            )

    def register_ops(self, ops: Sequence[CustomOp]) -> None:
        """Take operators over; also after the first run. ``init`` runs here for every shape in use so far."""
        with self.exclusive():
            for op in distinct(map(as_custom_op, ops)):
                for program in self._programs.values():
                    program.register(op)
                self._ops[op.op_type] = op

    def register_postprocess(self, plugin: str | os.PathLike[str] | PostProcess) -> None:
        """Open the plugin for the shapes in use. Raises ContextInvalid after a run, ParamInvalid for a second one."""
        with self.exclusive():
            if self._post is not None or self._results is not None:
                why = "the model has run already" if self._post is None else "a plugin is registered already"
                raise ContextInvalid(f"{why}; open the model again to register a post-process plugin")
            post = chosen(plugin)
            if post is not None:
                self._outputs = post.open(self._inputs, self._outputs)
            self._post = post

    def _select(self, number: int) -> None:
        if number not in self._programs:
            with self._file.naming():
                graph = self._model.graph(number, self._attributes)
            computed = graph_for(self._fidelity, graph)
            self._programs[number] = ExecutionPlan(computed, self._label, self._ops, self._model.custom_ops)
            self._graphs[number] = graph
            self._io[number] = self._model.io(number)
        self._current = number
        ins, outs = self._io[number]
        self._inputs = [default_attr(i, io, self.batch, True, self._soc) for i, io in enumerate(ins)]
        self._outputs = [default_attr(i, io, self.batch, False, self._soc) for i, io in enumerate(outs)]
        if self._post is not None:
            self._outputs = self._post.open(self._inputs, self._outputs)
        with self._file.naming():
            self._feeds = [
                self._feed(*each) for each in zip(ins, self._graphs[number].inputs, self.native_inputs)
            ]
        self._values = self._seconds = self._table = None
        self._bound.clear()

    def _feed(self, io: IoTensor, index: int, native: TensorAttr) -> InputFeed | FloatFeed:
        stored = self._graphs[self._current].tensors[index]
        if self._fidelity is not Fidelity.FLOAT:
            return InputFeed(io, stored, native)
        return FloatFeed(io, stored, self._programs[self._current].graph.tensors[index], native)

    # -- common path --------------------------------------------------------------------------------------

    def set_inputs(self, inputs: Sequence[Input]) -> None:
        with self.exclusive():
            if self._bound:
                raise ContextInvalid(MIXED)
            by_index = {item.index: item for item in inputs}
            missing = [attr.name for attr in self._inputs if attr.index not in by_index]
            if missing or len(by_index) != len(self._inputs):
                raise InputInvalid(
                    f"{self._label} needs inputs {[a.name for a in self._inputs]}, {len(inputs)} given"
                    + (f", {missing} missing" if missing else "")
                )
            if self._model.dynamic:
                self.follow_shapes(inputs)
            self._values = [feed.values(by_index[i]) for i, feed in enumerate(self._feeds)]
            self._common = True

    def run(self) -> None:
        with self.exclusive(), self._hold_internal(), limited(self._threads):
            if self._bound:
                self._values = [feed.values(item) for feed, item in zip(self._feeds, self._bound_inputs())]
            watch = Stopwatch() if self._times else None
            writer = self._writer(default_folder(self._label)) if self._dumps else None
            started = time.perf_counter()
            frame = Frame(*self._both_graphs(), self._compute(watch, writer), number=self._frames)
            self._frames += 1
            if self._post is not None:
                frame.post = self._post.compute(frame.elements())
            self._last_run_us = round((time.perf_counter() - started) * 1e6)
            self._previous, self._results = self._results, frame
            if self._bound:
                self._write_bound(frame)
            if writer is not None:
                logger.info("tensors of this run: %s", writer.close().folder)
            if watch is not None:
                self._seconds, self._table = watch.seconds, None
                if self._logs:
                    for line in str(self.perf_table()).splitlines():
                        logger.debug("%s", line)

    def _both_graphs(self) -> tuple[Graph, Graph]:
        return self._programs[self._current].graph, self._graphs[self._current]

    def _compute(
        self, watch: Watch | None = None, writer: DumpWriter | None = None, feeder: Watch | None = None
    ) -> list[list[Array]]:
        """Outputs of the graph per batch item. Raises ContextInvalid before inputs are set."""
        if self._values is None:
            raise ContextInvalid("set inputs before running")
        program, fed = self._programs[self._current], self._values

        def compute(item: int) -> list[Array]:
            feeds = {index: values[item] for index, values in zip(program.graph.inputs, fed)}
            looks = watch
            if writer is not None:
                recorder = Recorder(program.graph, writer, item if self.batch > 1 else None)
                recorder.inputs(feeds)
                looks = Watches(feeder, watch, recorder)
            outputs = program.run(feeds, looks)
            return [outputs[index] for index in program.graph.outputs]

        alone = watch is not None or writer is not None or not program.concurrent
        return run_items(compute, self.batch, 1 if alone else self._lanes)

    def get_outputs(self, want_float: bool = True) -> list[Array]:
        """Outputs of the last run; in async mode of the one before it (the first run answers for itself)."""
        with self.exclusive():
            if self._bound:
                raise ContextInvalid(MIXED)
            frame = self._previous if self._async and self._previous else self._results
            if frame is None:
                raise ContextInvalid("run the model before asking for outputs")
            self._fetched = frame.number
            if frame.post is not None:
                return converted(frame.post, self._outputs, want_float)
            return frame.floats() if want_float else frame.elements()

    # -- figures ------------------------------------------------------------------------------------------

    def perf_table(self) -> PerfTable:
        """Figures per layer of the last timed run; without one the last inputs are run once more, timed."""
        with self.exclusive():
            if self._seconds is None:
                self._ask_for_inputs("figures per layer")
                watch = Stopwatch()
                self._compute(watch)
                self._seconds = watch.seconds
            if self._table is None:
                program, graph = self._programs[self._current], self._graphs[self._current]
                note = "times of the CPU reference on this machine"
                if self._fidelity is Fidelity.FLOAT:
                    note += ", computed in float"
                self._table = perf_table(graph, program, self._seconds, self._soc, note)
            return self._table

    def memory(self) -> MemorySize:
        """What the model needs on the NPU, from the sizes that the file states; not what this process holds."""
        with self.exclusive():
            size = memory_size(self._graphs[self._current], len(self._file.data), self.batch)
        if self._soc.generation == "rknpu3":  # a network runs on one core of a coprocessor
            return replace(size, cores=(CoreMemory(0, size.weight, size.internal),))
        return size

    def dump(self, directory: str | os.PathLike[str], golden: Dump | None = None) -> Dump:
        with self.exclusive():
            self._ask_for_inputs("a dump")
            writer = self._writer(directory)
            feeder = None if golden is None else Feeder(self._programs[self._current].graph, golden)
            self._compute(None, writer, feeder)
            return writer.close()

    def _writer(self, directory: str | os.PathLike[str]) -> DumpWriter:
        return DumpWriter(
            directory,
            model=self._label,
            backend=self.backend_name,
            soc=self._soc.name,
            fidelity=self._fidelity.value,
        )

    def _ask_for_inputs(self, what: str) -> None:
        if self._values is None:
            raise ContextInvalid(f"{what} needs data to run on: call infer (or set_inputs) with inputs first")

    # -- life ---------------------------------------------------------------------------------------------

    def dup(self) -> CpuContext:
        with self.exclusive():
            self._check_dup(self._label)
            twin = CpuContext.__new__(CpuContext)
            ZeroCopyContext.__init__(twin)
            twin._set_up(self._file, self._soc, self._options)
            twin._graphs, twin._io = dict(self._graphs), dict(self._io)
            twin._ops = dict(self._ops)
            twin._programs = {number: program.twin(twin._ops) for number, program in self._programs.items()}
            twin._core_mask, twin._lanes = self._core_mask, self._lanes
            twin._select(self._current)
            return twin

    def _release(self) -> None:
        if self._post is not None:
            self._post.close()
        for program in self._programs.values():
            program.close()
        self._programs.clear()
        self._graphs.clear()
        self._feeds.clear()
        self._values = self._results = self._previous = None
        self._bound.clear()
        self._given.clear()
        for mem in list(self._memories):
            mem.close()
        trim()
