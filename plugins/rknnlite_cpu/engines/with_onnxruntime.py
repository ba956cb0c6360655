"""Segments on onnxruntime."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import onnxruntime

from rknnlite.native.processors import instructions
from rknnlite.spi.lowering import Form

from ..values import Array
from .engine import Engine, Program
from .probe import exact_in_bytes

__all__ = ["OnnxRuntime"]

_FATAL = 4
_SETTINGS = {
    "session.intra_op.allow_spinning": "0",  # threads that wait busily take the time of others: 12 ms instead of 4
    "session.disable_quant_qdq": "1",  # else sums of two branches are rounded before they are added
}
_PRECISE = {"session.x64quantprecision": "1"}
"""Slower sums for processors without VNNI, which cut them off at 16 bits."""


class _Session(Program):
    def __init__(self, session: Any, outputs: Sequence[str]) -> None:
        self._session, self._outputs = session, list(outputs)
        self._inputs = [each.name for each in session.get_inputs()]

    def run(self, values: Sequence[Array]) -> list[Array]:
        results: list[Array] = self._session.run(self._outputs, dict(zip(self._inputs, values)))
        return results


class OnnxRuntime(Engine):
    """onnxruntime's CPU provider."""

    name = "onnxruntime"

    def __init__(self) -> None:
        self._precise = False

    @property
    def version(self) -> str:
        return f"{self.name} {onnxruntime.__version__} {instructions()}"

    @functools.cached_property
    def form(self) -> Form:
        for self._precise in (False, True):
            if exact_in_bytes(self):
                return Form.EXACT_INT8
        return Form.EXACT

    def compile(self, model: bytes, outputs: Sequence[str], threads: int) -> Program:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = _FATAL
        for key, value in {**_SETTINGS, **(_PRECISE if self._precise else {})}.items():
            options.add_session_config_entry(key, value)
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        return _Session(session, outputs)
