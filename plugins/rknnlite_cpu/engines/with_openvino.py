"""Segments on OpenVINO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import openvino
from rknnlite_graph.lowering import Form

from rknnlite.native.processors import instructions

from ..values import Array
from .engine import Engine, Program

__all__ = ["OpenVino"]

_SETTINGS = {
    "INFERENCE_PRECISION_HINT": "f32",  # else sums are rounded to bfloat16 where the processor can
    "SNIPPETS_MODE": "DISABLE",  # they round a product and a sum as one
    "NUM_STREAMS": "1",
    "ENABLE_CPU_PINNING": "NO",
}


class _Compiled(Program):
    """One request at a time belongs to a call; those that are done are kept for the next ones."""

    def __init__(self, compiled: Any, outputs: Sequence[str]) -> None:
        self._compiled = compiled
        self._ports = [compiled.output(name) for name in outputs]
        self._idle: list[Any] = []

    def run(self, values: Sequence[Array]) -> list[Array]:
        try:
            request = self._idle.pop()
        except IndexError:
            request = self._compiled.create_infer_request()
        try:
            results = request.infer(list(values))
            return [results[port].copy() for port in self._ports]  # the request writes there again
        finally:
            self._idle.append(request)


class OpenVino(Engine):
    """OpenVINO's CPU plugin.

    Its products of 8 bits round before the sum of two branches: float32 it is. Doubles are float32 there, too, and quotients are
    products with reciprocals, so that nodes with them are left to the numpy kernels.
    """

    name = "openvino"

    def __init__(self) -> None:
        self._core = openvino.Core()

    @property
    def version(self) -> str:
        return f"{self.name} {openvino.__version__} {instructions()}"

    @property
    def form(self) -> Form:
        return Form.EXACT_PRODUCTS

    def compile(self, model: bytes, outputs: Sequence[str], threads: int) -> Program:
        settings = {**_SETTINGS, "INFERENCE_NUM_THREADS": str(threads)}
        network = self._core.read_model(model, b"")
        return _Compiled(self._core.compile_model(network, "CPU", settings), outputs)
