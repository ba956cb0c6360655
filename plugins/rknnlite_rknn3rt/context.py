"""One network on librknn3_api."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from rknnlite_backend.native_objects import abandon_after_fork
from rknnlite_backend.running import check_dup, check_under_way, find_shapes, not_prepared, not_run, run_late
from rknnlite_insight.dumps import Dump, DumpWriter

from rknnlite.errors import InputInvalid, ParamInvalid, RknnError
from rknnlite.formats import ModelFile
from rknnlite.spi import Context, Input, Memory, OpenOptions, PerfRow, PerfTable, PostProcess
from rknnlite.tensor import TensorAttr

from .convert import from_native, to_native
from .errors import check
from .loader import Library
from .native_context import NativeContext
from .profiling import dump, dump_features, profile_ops
from .queries import QueryContext
from .settings import Rknn3rtSettings
from .shapes import ShapeTable

__all__ = ["Rknn3Context"]

Array = NDArray[Any]


class Rknn3Context(QueryContext):
    """See ``rknnlite.spi.Context``. Memory of single tensors may be bound or left to the context, as one likes."""

    def __init__(
        self,
        library: Library,
        file: ModelFile,
        weights: ModelFile | None,
        settings: Rknn3rtSettings,
        options: OpenOptions,
    ) -> None:
        Context.__init__(self)
        self._set_up(NativeContext.open(library, settings, self._owner), file.label, settings)
        abandon_after_fork(self)
        self._soc_name = options.soc or self._soc_name
        try:
            self._need().load(file, weights, settings, options.core_mask)
            self._core_mask = options.core_mask or 0
            self._prepare()
            if settings.postprocess is not None:
                self.register_postprocess(settings.postprocess)
        except BaseException:
            self._abort()
            raise

    def _prepare(self) -> None:
        self._read_tensors()
        self._shape_table = ShapeTable.read(self._need(), self._sets()[0].tensors, len(self._sets()[1]))

    # -- settings -----------------------------------------------------------------------------------------

    def set_core_mask(self, mask: int) -> None:
        """The coprocessor takes its cores when the model is opened; only the same mask again is accepted."""
        if mask != self._core_mask:
            raise ParamInvalid(
                f"cores of a coprocessor are chosen once: open {self._label} with core_mask={mask:#x} instead"
            )

    def set_shapes(self, shapes: Sequence[Sequence[int]]) -> None:
        with self.step():
            self._finish()
            number = find_shapes(self._label, shapes, self.shapes, self.inputs)
            check("rknn3_set_shape", self._need().call("rknn3_set_shape", number))
            self._read_tensors()

    def register_postprocess(self, plugin: str | os.PathLike[str] | PostProcess) -> None:
        """Load a post-process plugin onto the coprocessor; its results take the place of the model's outputs."""
        if isinstance(plugin, PostProcess):
            raise ParamInvalid(
                "the coprocessor takes the file of a post-process plugin, not one that is loaded here"
            )
        path = Path(plugin)
        if not path.is_file():
            raise ParamInvalid(f"there is no post-process plugin {path}")
        with self.exclusive():
            self._finish()
            name = "rknn3_register_custom_ops_plugins"
            encoded = os.fsencode(path)
            detail = f"the coprocessor does not take the plugin {path} for {self._label}"
            check(name, self._need().call(name, encoded, len(encoded)), detail)
            self._post = True
            self._read_tensors()

    # -- common path --------------------------------------------------------------------------------------

    def set_inputs(self, inputs: Sequence[Input]) -> None:
        with self.step():
            self._finish()
            self.follow_shapes(inputs)
            into = self._sets()[0]
            for item in inputs:
                if not 0 <= item.index < len(into):
                    raise InputInvalid(f"{self._label} has inputs 0 to {len(into) - 1}, not {item.index}")
            ready = [to_native(item, into.tensors[item.index]) for item in inputs]
            for item, data in zip(inputs, ready):
                into.write(item.index, data)
            self._ran = False

    def run(self) -> None:
        with self.step():
            feeds = self._feeds()
            self._ran = False
            start = time.perf_counter()
            code = self._need().call("rknn3_run", *feeds)
            self._us = round((time.perf_counter() - start) * 1e6)
            check("rknn3_run", code, self._run_detail(code))
            self._ran = True

    def _run_detail(self, code: int) -> str:
        if code == -7 and self._settings.timeout_ms:
            return run_late(self._label, self._settings.timeout_ms)
        if code == -5 and self.user_internal and "rknn3_set_internal_mem" not in self._given:
            return "the model was opened with user_internal=True; give it internal memory first"
        return ""

    def _feeds(self) -> tuple[Any, int, Any, int]:
        """Arguments of a run: all inputs have data, all tensors memory."""
        self._finish()
        inputs, outputs = self._sets()
        missing = [inputs.label(i) for i, filled in enumerate(inputs.filled) if not filled]
        if missing:
            raise not_prepared(f"set {', '.join(missing)} (or bind memory)")
        return inputs.prepare(), len(inputs), outputs.prepare(), len(outputs)

    def get_outputs(self, want_float: bool = True) -> list[Array]:
        with self.step():
            self._finish()
            if not self._ran:
                raise not_run()
            out = self._sets()[1]
            return [from_native(out.read(i), tensor, want_float) for i, tensor in enumerate(out.tensors)]

    def start(self, timeout_ms: int = 0) -> int:
        """``rknn3_run_async`` (runtime 1.0.0 only); the time that a run may take is ``timeout_ms`` of ``open``."""
        with self.step():
            feeds = self._feeds()
            self._ran = False
            check("rknn3_run_async", self._need().call("rknn3_run_async", *feeds))
            self._running = True
            self._frames += 1
            return self._frames

    def wait(self, frame_id: int, timeout_ms: int = 0) -> None:
        with self.step():
            check_under_way(frame_id, self._frames, self._frames or None)
            self._finish()

    def _finish(self) -> None:
        """Wait for the run that ``start`` began, if there is one."""
        if self._running:
            self._running = False
            check("rknn3_wait", self._need().call("rknn3_wait"))
            self._ran = True

    # -- zero-copy path -----------------------------------------------------------------------------------

    def bind(self, attr: TensorAttr, mem: Memory) -> None:
        """``attr`` is one of ``native_inputs`` or ``native_outputs``, unchanged: the runtime converts nothing."""
        with self.step():
            self._finish()
            for tensor_set in self._sets():
                for index, tensor in enumerate(tensor_set.tensors):
                    if attr == tensor.native:
                        tensor_set.bind(index, mem)
                        return
            raise ParamInvalid(
                f"{attr} is none of the native attributes of {self._label}; take one of native_inputs or "
                "native_outputs as it is"
            )

    # -- figures and dumps --------------------------------------------------------------------------------

    def perf_table(self) -> PerfTable:
        """One row, the whole model: ``librknn3_api`` prints figures per operator itself, see ``profile_ops``."""
        with self.exclusive():
            if not self._us:
                raise not_run("figures")
            row = PerfRow("1", "Model", "NPU", self._label, float(self._us))
            note = "the whole of rknn3_run; librknn3_api prints figures per operator itself: profile_ops()"
            return PerfTable([row], cores=self.soc.cores, note=note)

    def dump(self, directory: str | os.PathLike[str], golden: Dump | None = None) -> Dump:
        if golden is not None:
            raise ParamInvalid("the coprocessor computes on its own values; a dump of it takes no golden")
        with self.exclusive():
            feeds = self._feeds()
            info = {"model": self._label, "backend": self.backend_name, "soc": self.soc.name}
            return dump(self._need(), feeds, DumpWriter(directory, **info), Path(directory))

    def profile_ops(self, log_level: int = 1) -> None:
        """Run once on the last inputs and let the library print a table: 0 totals, 1 per op, 2 with bandwidth."""
        with self.exclusive():
            profile_ops(self._need(), self._feeds(), log_level)

    def dump_features(
        self, directory: str | os.PathLike[str], core_mask: int = 0, selector: str | None = None
    ) -> list[Path]:
        """Run layer by layer and write every tensor as ``.npy``; the files that are there afterwards.

        ``core_mask`` and ``selector`` need runtime 1.0.4.
        """
        with self.exclusive():
            return dump_features(self._need(), self._feeds(), Path(directory), core_mask, selector)

    # -- life ---------------------------------------------------------------------------------------------

    def dup(self) -> Rknn3Context:
        with self.exclusive():
            self._finish()
            check_dup(self._label, bool(self._shape_table.shapes))
            twin = Rknn3Context.__new__(Rknn3Context)
            Context.__init__(twin)
            twin._set_up(self._need().duplicate(twin._owner), self._label, self._settings)
            abandon_after_fork(twin)
            twin._core_mask, twin._soc_name = self._core_mask, self._soc_name
            try:
                twin._prepare()
            except BaseException:
                twin._abort()
                raise
            return twin

    def _abort(self) -> None:
        """Give everything back although somebody (a traceback) may still refer to it."""
        self._closed = True
        native = self._native_context
        self._release()
        if native is not None:
            native.release()

    def _release(self) -> None:
        """Memory first, then the context; numpy views that are still alive delay both until they are gone."""
        if self._native_context is not None:
            with suppress(RknnError):
                self._finish()
        self._drop_tensors()
        self._kept.clear()
        self._native_context = None

    def __del__(self) -> None:
        if self.__dict__.get("_running"):  # C still writes into memory that is about to go
            with suppress(RknnError):
                self._finish()

    def abandon(self) -> None:
        super().abandon()
        self._running = False
        self._in = self._out = self._native_context = None
