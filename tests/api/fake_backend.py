"""A backend for tests of what stands above one: adds up its inputs, remembers calls, fails on demand."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rknnlite import hookimpl, socs
from rknnlite.errors import ParamInvalid
from rknnlite.spi import Backend, Context, Input, OpenOptions, PerfTable, Probe, Versions
from rknnlite.tensor import DType, Layout, QuantParams, TensorAttr


def image_input(index: int = 0, name: str = "image", dims: tuple[int, ...] = (1, 4, 6, 3)) -> TensorAttr:
    """A quantised NHWC input."""
    return TensorAttr(index, name, dims, DType.INT8, Layout.NHWC, QuantParams(0.5, -3), w_stride=16)


def plain_input(index: int, name: str, dims: tuple[int, ...], dtype: DType = DType.FLOAT16) -> TensorAttr:
    """An input that is no image."""
    return TensorAttr(index, name, dims, dtype, Layout.UNDEFINED)


def output(index: int = 0, name: str = "scores", dims: tuple[int, ...] = (1, 2)) -> TensorAttr:
    """A float16 output."""
    return TensorAttr(index, name, dims, DType.FLOAT16, Layout.UNDEFINED)


class FakeContext(Context):
    """Every element of every output is the sum of all inputs plus the output's index."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self._bench = bench
        self._inputs, self._outputs = list(bench.inputs), list(bench.outputs)
        self.given: list[Input] = []
        self._sum = 0.0

    def _call(self, name: str, *args: Any) -> None:
        self._bench.calls.append((name, *args))
        fault = self._bench.faults.pop(name, None)
        if fault is not None:
            raise fault
        gate = self._bench.gates.get(name)
        if gate is not None:
            gate()

    @property
    def backend_name(self) -> str:
        return "fake"

    @property
    def inputs(self) -> list[TensorAttr]:
        self._bench.queries += 1
        return self._inputs

    @property
    def outputs(self) -> list[TensorAttr]:
        self._bench.queries += 1
        return self._outputs

    native_inputs = inputs
    native_outputs = outputs

    @property
    def versions(self) -> Versions:
        self._call("versions")
        return Versions("9.9.9 (fake@2026-01-01)", "0.9.8")

    @property
    def soc(self) -> socs.Soc:
        return socs.get(self._bench.soc)

    @property
    def shapes(self) -> list[list[tuple[int, ...]]]:
        return self._bench.shapes

    @property
    def last_run_us(self) -> int:
        return 1234

    def set_core_mask(self, mask: int) -> None:
        self._call("set_core_mask", mask)
        self.soc.check_core_mask(mask)

    def set_shapes(self, shapes: Sequence[Sequence[int]]) -> None:
        self._call("set_shapes", [tuple(shape) for shape in shapes])
        if [tuple(shape) for shape in shapes] not in self._bench.shapes:
            raise ParamInvalid("no such shape")
        self._inputs = [image_input(i, attr.name, tuple(shapes[i])) for i, attr in enumerate(self._inputs)]

    def set_inputs(self, inputs: Sequence[Input]) -> None:
        self.follow_shapes(inputs)
        self._call("set_inputs")
        self.given = self._bench.given = list(inputs)

    def run(self) -> None:
        self._call("run")
        self._sum = float(sum(np.asarray(item.data, np.float64).sum() for item in self.given))

    def get_outputs(self, want_float: bool = True) -> list[Any]:
        self._call("get_outputs", want_float)
        return [np.full(attr.dims, self._sum + attr.index, np.float32) for attr in self._outputs]

    def perf_table(self) -> PerfTable:
        return self._bench.layers if self._bench.layers else super().perf_table()

    def _release(self) -> None:
        self._call("close")


class FakeBackend(Backend):
    """Takes any bytes for a model; preferred to every other backend while it is registered."""

    name = "fake"

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def probe(self) -> Probe:
        return Probe(True, "test double", priority=1000)

    def open(self, model: Any, options: OpenOptions) -> Context:
        self._bench.options.append(options)
        self._bench.calls.append(("open",))
        fault = self._bench.faults.pop("open", None)
        if fault is not None:
            raise fault
        if options.soc is not None:
            self._bench.soc = options.soc
        return FakeContext(self._bench)


@dataclass
class Bench:
    """What a test sets up, and what it finds afterwards.

    ``faults`` maps a call (``open``, ``set_core_mask``, ``set_inputs``, ``set_shapes``, ``run``,
    ``get_outputs``, ``versions``, ``close``) to the exception that it raises next, once; ``gates`` maps a
    call to a function that is called inside it.
    """

    inputs: list[TensorAttr] = field(default_factory=lambda: [image_input()])
    outputs: list[TensorAttr] = field(default_factory=lambda: [output()])
    shapes: list[list[tuple[int, ...]]] = field(default_factory=list)
    soc: str = "rk3588"
    faults: dict[str, Exception] = field(default_factory=dict)
    gates: dict[str, Any] = field(default_factory=dict)
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    options: list[OpenOptions] = field(default_factory=list)
    given: list[Input] = field(default_factory=list)
    layers: PerfTable = field(default_factory=PerfTable)
    queries: int = 0

    def names(self) -> list[str]:
        """The calls so far, by name."""
        return [call[0] for call in self.calls]

    @hookimpl
    def rknnlite_register_backends(self, register: Any) -> None:
        register(FakeBackend(self))

    def __hash__(self) -> int:
        return id(self)


class Gate:
    """Holds a call inside the context until the test lets it go on."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.open = threading.Event()

    def __call__(self) -> None:
        self.entered.set()
        assert self.open.wait(20), "the test never opened the gate"
