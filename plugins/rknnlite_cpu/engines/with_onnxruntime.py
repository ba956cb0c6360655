"""Segments on onnxruntime."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

import onnxruntime
from rknnlite_backend.versions import version_numbers
from rknnlite_graph import unary_functions
from rknnlite_graph.lowering import Form
from rknnlite_programs import buildcache

from rknnlite.errors import BackendUnavailable, ParamInvalid
from rknnlite.log import logger
from rknnlite.native.processors import instructions

from ..kernels.buffers import give_back_heap
from ..values import Array
from .engine import Engine, Program
from .int8_exactness import exact_in_bytes

__all__ = ["OnnxRuntime"]

_OLDEST = (1, 17)
"""Older ones leave out the rounding to float16 of a cast there and back, and take no operator that runs on their threads."""
_FATAL = 4
_PROVIDERS = ["CPUExecutionProvider"]
_DONE = b"\x32\x09optimised"
"""Behind a model that is optimised already: its doc_string, as protobuf joins messages."""
_SETTINGS = {
    "session.intra_op.allow_spinning": "0",  # threads that wait busily take the time of others: 12 ms instead of 4
    "session.disable_quant_qdq": "1",  # else sums of two branches are rounded before they are added
}
_PRECISE = {"session.x64quantprecision": "1"}
"""Slower sums for processors without VNNI, which cut them off at 16 bits."""


_SOURCE = Path(__file__).with_name("functions_of_sums.c")
_ROUNDED = (
    "-std=gnu11",
    "-O3",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fvisibility=hidden",
)


@functools.cache
def _library() -> Optional[Path]:
    """The operator of ``functions_of_sums.c``, built for this machine; None without a compiler, or where it fails.

    Without it functions behind convolutions are some twenty operators of ONNX each, with the same bytes and two to three times the
    time of a network that has many.
    """
    pairs = {"LOGISTIC": unary_functions.LOGISTIC, "NORMAL": unary_functions.NORMAL}
    sides = [
        (f"{name}_{side}", part)
        for name, pair in pairs.items()
        for side, part in zip(("OVER", "UNDER"), pair)
    ]
    single = ("LOGISTIC_REACH", "LOGISTIC_FACTOR", "NORMAL_REACH", "NORMAL_FACTOR")
    numbers = [*sides, *((name, (getattr(unary_functions, name),)) for name in single)]
    defined = [f"-D{name}={','.join(f'{value!r}f' for value in values)}" for name, values in numbers]
    flags = [*_ROUNDED, *defined, *buildcache.for_this_processor()]
    try:
        return buildcache.build_library(
            "librknnlite_sums.so", _SOURCE, "functions of sums on onnxruntime", *flags
        )
    except (BackendUnavailable, ParamInvalid) as error:
        logger.info("functions behind convolutions take onnxruntime longer than they could: %s", error)
        return None


class _Session(Program):
    def __init__(self, session: Any, outputs: Sequence[str]) -> None:
        self._session, self._outputs = session, list(outputs)
        session._model_bytes = (
            None  # it would keep all weights twice, to make itself anew on another provider
        )
        self._inputs = [each.name for each in session.get_inputs()]

    def run(self, values: Sequence[Array]) -> list[Array]:
        results: list[Array] = self._session.run(self._outputs, dict(zip(self._inputs, values)))
        return results


def _opened(model: bytes, options: Any) -> Any:
    """A session; from a file in memory, since bytes are copied once more."""
    if not hasattr(os, "memfd_create"):
        return onnxruntime.InferenceSession(model, options, providers=_PROVIDERS)
    with os.fdopen(os.memfd_create("model"), "wb") as file:
        file.write(model)
        file.flush()
        return onnxruntime.InferenceSession(f"/proc/self/fd/{file.fileno()}", options, providers=_PROVIDERS)


class OnnxRuntime(Engine):
    """onnxruntime's CPU provider."""

    name = "onnxruntime"

    def __init__(self) -> None:
        """Raises ImportError for an onnxruntime that is too old."""
        self._precise = False
        if version_numbers(onnxruntime.__version__) < _OLDEST:
            raise ImportError(
                f"onnxruntime {onnxruntime.__version__} does not round to float16; 1.17 or newer does"
            )

    @functools.cached_property
    def _library(self) -> Optional[str]:
        """Of the operator of our own, where this onnxruntime takes it."""
        path = _library()
        if path is None:
            return None
        try:
            onnxruntime.SessionOptions().register_custom_ops_library(str(path))
        except Exception as error:
            logger.info("onnxruntime does not take %s: %s", path, error)
            return None
        return str(path)

    @property
    def version(self) -> str:
        return f"{self.name} {onnxruntime.__version__} {instructions()} {self._library}"

    @functools.cached_property
    def form(self) -> Form:
        for self._precise in (False, True):
            if exact_in_bytes(self):
                return Form.EXACT_OWN if self._library is not None else Form.EXACT_INT8
        return Form.EXACT

    def prepared(self, model: bytes) -> bytes:
        """Optimised for this processor: that is half of what making a session costs."""
        with tempfile.TemporaryDirectory() as folder:
            options = self._options(1)
            options.optimized_model_filepath = f"{folder}/model.onnx"
            options.add_session_config_entry("session.disable_prepacking", "1")  # nobody runs it
            _opened(model, options)
            give_back_heap()
            return Path(folder, "model.onnx").read_bytes() + _DONE

    def compile(self, model: bytes, outputs: Sequence[str], threads: int) -> Program:
        options = self._options(threads)
        if model.endswith(_DONE):
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        return _Session(_opened(model, options), outputs)

    def _options(self, threads: int) -> Any:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = _FATAL
        for key, value in {**_SETTINGS, **(_PRECISE if self._precise else {})}.items():
            options.add_session_config_entry(key, value)
        if self._library is not None:
            options.register_custom_ops_library(self._library)
        return options
