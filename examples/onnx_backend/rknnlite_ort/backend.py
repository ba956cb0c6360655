"""The backend: ``.onnx`` files by onnxruntime, in the shapes that the arrays have."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from rknnlite_backend.running import in_order, not_prepared, not_run

from rknnlite import socs
from rknnlite.errors import ModelInvalid, ParamInvalid, RknnError
from rknnlite.formats import ModelFile
from rknnlite.layout import nchw_to_nhwc_shape
from rknnlite.spi import Backend, Context, Input, OpenOptions, Probe, Versions
from rknnlite.spi.types import check_options
from rknnlite.tensor import TensorAttr

from .tensors import attr_of, fed, inside

__all__ = ["OrtBackend", "OrtContext"]

_FREE = ((1, 64), (2, 128))
"""Two examples of free dimensions, the first one and any other: what differs in ``shapes`` is -1 to clients of servers."""


class OrtBackend(Backend):
    """Opens ONNX files and nothing else, so that no other backend loses a model to it."""

    name = "ort"
    suffixes = (".onnx",)

    def probe(self) -> Probe:
        if importlib.util.find_spec("onnxruntime") is None:  # looked for, not imported: that takes a second
            return Probe(False, "onnxruntime is not installed; pip install onnxruntime")
        return Probe(True, "ONNX files by onnxruntime, on the CPU", priority=1, devices=("cpu",))

    def refuses(self, model: ModelFile) -> str | None:
        try:
            head = bytes(model.data[:2])
        except ModelInvalid as error:
            return str(error)
        is_onnx = (
            len(head) == 2 and head[0] == 0x08 and 3 <= head[1] < 32
        )  # field 1 is the version of the format
        return None if is_onnx else f"{model.label} is no ONNX file"

    def open(self, model: ModelFile, options: OpenOptions) -> Context:
        reason = self.refuses(model)
        if reason:
            raise ModelInvalid(f"{reason}; backend ort opens .onnx")
        check_options(self.name, options.extra)
        context = OrtContext(model, options)
        if options.core_mask:
            context.set_core_mask(options.core_mask)
        return context


class OrtContext(Context):
    """One ONNX file. Pictures are NHWC outside, as everywhere in rknnlite, and NCHW inside."""

    backend_name = "ort"
    platform = "onnxruntime_onnx"  # what servers announce
    versions = soc = inputs = None  # of what is opened

    def __init__(self, model: ModelFile, options: OpenOptions) -> None:
        super().__init__()
        import onnxruntime

        self.versions = Versions(api=f"onnxruntime {onnxruntime.__version__}", driver="none")
        self.soc = (socs.get(options.soc) if options.soc else socs.detect()) or socs.get("rk3588")
        self._label = model.label
        self._made = lambda threads: _session(model, threads)
        self._session = self._made(options.threads or 0)
        self._choose(self._sample(0))
        _ = self.outputs  # a network that does not run is refused here

    # -- shapes -------------------------------------------------------------------------------------------

    def _sample(self, number: int) -> list[tuple[int, ...]]:
        """Shapes of all inputs, rank 4 as NHWC; free dimensions have names there, and here numbers of ``_FREE``."""
        shapes = [
            tuple(
                dim if isinstance(dim, int) else _FREE[number][axis > 0] for axis, dim in enumerate(one.shape)
            )
            for one in self._session.get_inputs()
        ]
        return [nchw_to_nhwc_shape(shape) if len(shape) == 4 else shape for shape in shapes]

    @property
    def shapes(self) -> list[list[tuple[int, ...]]]:
        small, large = self._sample(0), self._sample(1)
        return [] if small == large else [small, large]

    def set_shapes(self, shapes: Sequence[Sequence[int]]) -> None:
        wanted = [tuple(int(dim) for dim in shape) for shape in shapes]
        small, large = self._sample(0), self._sample(1)
        same = [len(shape) for shape in wanted] == [len(shape) for shape in small] and small != large
        dims = zip(*(itertools.chain(*each) for each in (wanted, small, large)))
        if not same or not all(dim == low or (dim > 0 and low != high) for dim, low, high in dims):
            raise ParamInvalid(
                f"{self._label}: no input shapes {wanted}; they are like {self.shapes or small}"
            )
        with self.exclusive():
            self._choose(wanted)

    def _choose(self, shapes: Sequence[tuple[int, ...]]) -> None:
        self.inputs = [
            attr_of(*each, True) for each in zip(self._session.get_inputs(), itertools.count(), shapes)
        ]
        self._feeds = self._results = self._outputs = None

    @property
    def outputs(self) -> list[TensorAttr]:
        """Of the last run; before one a run on zeros tells what they are like."""
        if self._outputs is None:
            zeros = {attr.name: np.zeros(inside(attr), attr.dtype.numpy) for attr in self.inputs}
            self._outputs = self._attrs_of(self._compute(zeros))
        return self._outputs

    def _attrs_of(self, results: Sequence[Any]) -> list[TensorAttr]:
        shapes = [result.shape for result in results]
        return [attr_of(*each, False) for each in zip(self._session.get_outputs(), itertools.count(), shapes)]

    # -- a frame ------------------------------------------------------------------------------------------

    def set_inputs(self, inputs: Sequence[Input]) -> None:
        with self.exclusive():
            self.follow_shapes(inputs)
            pairs = zip(in_order(inputs, self.inputs, self._label), self.inputs)
            self._feeds = {attr.name: fed(item, attr) for item, attr in pairs}
            self._results = None

    def run(self) -> None:
        with self.exclusive():
            if self._feeds is None:
                raise not_prepared()
            self._results = self._compute(self._feeds)
            self._outputs = self._attrs_of(self._results)

    def _compute(self, feeds: dict[str, Any]) -> list[Any]:
        try:
            results: list[Any] = self._session.run(None, feeds)
        except Exception as error:  # onnxruntime has no class for all of its own
            raise RknnError(f"{self._label}: onnxruntime says {error}") from None
        return results

    def get_outputs(self, want_float: bool = True) -> list[Any]:
        with self.exclusive():
            if self._results is None:
                raise not_run()
            return [result.astype(np.float32 if want_float else result.dtype) for result in self._results]

    # -- life --------------------------------------------------------------------------------------

    def limit_threads(self, count: int) -> bool:
        with self.exclusive():
            self._session = self._made(count)
        return True  # the CPU computes: a pool divides its cores

    def _release(self) -> None:
        self._session = self._made = self._feeds = self._results = None


def _session(model: ModelFile, threads: int) -> Any:
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads  # 0: as many as there are cores
    settings.log_severity_level = 4  # what it has to say it raises
    try:
        return onnxruntime.InferenceSession(bytes(model.data), settings, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ModelInvalid(f"{model.label}: onnxruntime does not open it: {error}") from None
