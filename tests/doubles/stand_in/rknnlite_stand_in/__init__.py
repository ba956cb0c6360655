"""A backend that computes nothing: it takes as long as its model says, and fails as often.

A model is JSON: ``{"latency_ms": 20, "input": [1, 224, 224, 3], "output": [1, 1000], "batch": 1, "fail": 0.01,
"hang": 0.001, "hang_s": 5, "gate": "PATH"}``. The elements of an output's row are those of the input's row, again and
again, as many as there are. A run waits until the file ``gate`` is there. With ``busy_ms`` it takes CPU time instead, as
kernels do: in about as many calls that let other threads have the interpreter as a network has nodes.
"""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rknnlite import hookimpl, socs
from rknnlite.errors import RknnError
from rknnlite.spi import Backend, Context, Input, OpenOptions, Probe, Versions
from rknnlite.tensor import DType, Layout, QuantParams, TensorAttr

__all__ = ["StandIn", "write_model"]

_PIECE = bytes(1 << 16)
"""What a kernel works on."""


def write_model(path: Path, **fields: Any) -> str:
    """A model file; the path as text."""
    path.write_text(json.dumps({"stand_in": 1, **fields}))
    return str(path)


class StandInContext(Context):
    """See the module."""

    backend_name = "stand_in"
    versions = Versions("1.0", "none")

    def __init__(self, fields: dict[str, Any]) -> None:
        super().__init__()
        self._fields = fields
        given, made = fields.get("input", [1, 4, 6, 3]), fields.get("output", [1, 8])
        layout = Layout.NHWC if len(given) == 4 else Layout.UNDEFINED
        self._inputs = [TensorAttr(0, "x", tuple(given), DType.INT8, layout, QuantParams(1.0, 0))]
        self._outputs = [TensorAttr(0, "y", tuple(made), DType.FLOAT32, Layout.UNDEFINED)]
        self._soc = socs.get(fields.get("soc", "rk3588"))
        self._rows = np.zeros((0, 0), np.float32)

    @property
    def inputs(self) -> list[TensorAttr]:
        return self._inputs

    @property
    def outputs(self) -> list[TensorAttr]:
        return self._outputs

    @property
    def soc(self) -> socs.Soc:
        return self._soc

    @property
    def batch(self) -> int:
        return int(self._fields.get("batch", 1))

    def set_inputs(self, inputs: Sequence[Input]) -> None:
        dims = self._outputs[0].dims
        rows = inputs[0].data.reshape(dims[0], -1)
        self._rows = (
            np.resize(rows, dims) if dims[0] == 1 else np.stack([np.resize(r, dims[1:]) for r in rows])
        )

    def run(self) -> None:
        fields, drawn = self._fields, random.random()
        while "gate" in fields and not Path(fields["gate"]).exists():
            time.sleep(0.005)
        if fields.get("latency_ms"):
            time.sleep(fields["latency_ms"] / 1e3)
        end = time.thread_time() + fields.get("busy_ms", 0) / 1e3
        while fields.get("busy_ms") and time.thread_time() < end:
            hashlib.sha256(_PIECE)
        if drawn < fields.get("fail", 0):
            raise RknnError("the stand-in failed")
        if drawn > 1 - fields.get("hang", 0):
            time.sleep(fields.get("hang_s", 5))

    def get_outputs(self, want_float: bool = True) -> list[Any]:
        return [self._rows.astype(np.float32)]

    def dup(self) -> Context:
        return StandInContext(self._fields)

    def _release(self) -> None:
        pass


class StandIn(Backend):
    """See the module."""

    name = "stand_in"

    def probe(self) -> Probe:
        return Probe(True, "computes nothing", priority=-1)

    def open(self, model: Any, options: OpenOptions) -> Context:
        return StandInContext(json.loads(bytes(model.data)))


@hookimpl
def rknnlite_register_backends(register: Any) -> None:
    register(StandIn())
