"""An ONNX file in float, run by onnxruntime. Needs the extra ``fast``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelInvalid, RknnError, one_line
from rknnlite.extras import missing
from rknnlite.tensor import DType, Layout, TensorAttr

__all__ = ["OnnxNetwork"]

Array = NDArray[Any]


class _Output(NamedTuple):
    data: Array


class OnnxNetwork:
    """An ONNX file in float, as much like a ``Context`` as ``VisionModel`` needs: one picture in, NCHW."""

    platform = "onnx"

    def __init__(self, path: Path) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise missing("fast", "running an ONNX file needs onnxruntime", error) from None
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        try:
            self._session: Any = onnxruntime.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime's have no common ancestor
            raise ModelInvalid(f"{path} cannot be opened as an ONNX network: {_first_line(error)}") from None
        self._path = path
        self.inputs = [self._input(n, entry) for n, entry in enumerate(self._session.get_inputs())]
        metadata = self._session.get_modelmeta().custom_metadata_map
        self.custom_string: str = metadata.get("names", "")
        zeros = [np.zeros(attr.dims, np.float32) for attr in self.inputs]
        names = [entry.name for entry in self._session.get_outputs()]
        self.outputs = [
            TensorAttr(n, name, array.shape, DType.from_numpy(array.dtype), Layout.NCHW)
            for n, (name, array) in enumerate(zip(names, self._run(zeros)))
        ]

    def _input(self, number: int, entry: Any) -> TensorAttr:
        dims = [1 if n == 0 and not isinstance(dim, int) else dim for n, dim in enumerate(entry.shape)]
        if entry.type != "tensor(float)" or not all(isinstance(dim, int) and dim > 0 for dim in dims):
            raise ModelInvalid(
                f"{self._path}: input {entry.name} is {entry.type} {entry.shape}; export it with float32 of a fixed size"
            )
        return TensorAttr(number, entry.name, tuple(dims), DType.FLOAT32, Layout.NCHW)

    def _run(self, arrays: Sequence[Array]) -> list[Array]:
        feeds = {attr.name: array for attr, array in zip(self.inputs, arrays)}
        try:
            outputs = [np.asarray(value) for value in self._session.run(None, feeds)]
        except Exception as error:
            raise RknnError(f"onnxruntime could not run {self._path}: {_first_line(error)}") from None
        return [
            value.astype(np.float32, copy=False) if value.dtype.kind == "f" else value for value in outputs
        ]

    def infer(self, array: Array, raw: bool = True) -> list[Any]:
        """Outputs of one batch."""
        return [_Output(value) for value in self._run([array.astype(np.float32, copy=False)])]

    def close(self) -> None:
        """Let go of the network."""
        self._session = None


def _first_line(error: Exception) -> str:
    return one_line(str(error).strip().partition("\n")[0]) or type(error).__name__
