"""The contracts: what a backend author gets for free."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from rknnlite import socs
from rknnlite.errors import ContextInvalid, InputInvalid, ParamInvalid, RknnError
from rknnlite.spi import AttrKind, Backend, Context, Input, OpenOptions, Probe, RawOutput, Step, Versions
from rknnlite.tensor import DType, Layout, QuantParams, TensorAttr


class Echo(Context):
    """The smallest context: its output is its input."""

    def __init__(self) -> None:
        super().__init__()
        self.released = 0
        self._given: list[Input] = []

    backend_name = "echo"
    inputs = [TensorAttr(0, "x", (1, 2, 3, 1), DType.INT8, Layout.NHWC, QuantParams(0.5, 1))]  # noqa: RUF012
    outputs = [  # noqa: RUF012
        TensorAttr(0, "y", (1, 2, 3, 1), DType.INT8, Layout.UNDEFINED, QuantParams(0.25, -2)),
        TensorAttr(1, "z", (1, 2, 3, 1), DType.FLOAT16, Layout.UNDEFINED),
    ]
    native_inputs, native_outputs = inputs, outputs
    versions = Versions("1.0", "none")
    soc = socs.get("rk3588")

    def set_core_mask(self, mask: int) -> None:
        raise NotImplementedError

    def set_shapes(self, shapes: Sequence[Sequence[int]]) -> None:
        raise NotImplementedError

    def set_inputs(self, inputs: Sequence[Input]) -> None:
        self._given = list(inputs)

    def run(self) -> None:
        if self._given[0].data.max() > 200:
            raise RknnError("too bright")

    def get_outputs(self, want_float: bool = True) -> list[Any]:
        return [self._given[0].data.astype(np.float32 if want_float else np.int8)] * 2

    def _release(self) -> None:
        self.released += 1


x = np.arange(6).reshape(1, 2, 3, 1)


def test_infer_is_set_run_get() -> None:
    context = Echo()
    for got in (context.infer(x), context.infer([x]), context.infer({"x": x})):
        assert len(got) == 2 and np.array_equal(got[0], x) and got[0].dtype == np.float32


def test_raw_outputs_carry_scale_and_zero_point() -> None:
    first, second = Echo().infer(x, raw=True)
    assert isinstance(first, RawOutput) and first.data.dtype == np.int8
    assert (first.scale, first.zero_point, second.scale, second.zero_point) == (0.25, -2, 1.0, 0)


def test_defaults() -> None:
    context = Echo()
    assert (context.batch, context.shapes, context.custom_string, context.last_run_us) == (1, [], "", 0)
    assert not context.closed and repr(context) == "<Echo 1 inputs, 2 outputs>"


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.create_mem(16),
        lambda c: c.import_mem(3, 16),
        lambda c: c.perf_table(),
        lambda c: c.memory(),
        lambda c: c.dup(),
        lambda c: c.register_ops([]),
    ],
)
def test_what_a_backend_lacks_says_so_with_its_name(call: Any) -> None:
    with pytest.raises(RknnError, match="backend echo"):
        call(Echo())


def test_closing_once() -> None:
    context = Echo()
    with context as same:
        assert same is context
    context.close()
    assert context.released == 1 and context.closed and repr(context) == "<Echo closed>"
    with pytest.raises(ContextInvalid, match="this context is closed; open the model again"):
        context.infer(x)


def test_errors_inside_let_go_of_the_context() -> None:
    context = Echo()
    with pytest.raises(RknnError, match="too bright"):
        context.infer(x + 250)
    with pytest.raises(InputInvalid):
        context.infer(x[0, 0])
    done: list[int] = []
    thread = threading.Thread(target=lambda: done.append(len(context.infer(x))))
    thread.start()
    thread.join()
    assert done == [2], "another thread may come in after an error"


def test_exclusive_is_refused_to_others_and_open_to_the_owner() -> None:
    context = Echo()
    refused: list[str] = []

    def intrude() -> None:
        try:
            context.infer(x)
        except ContextInvalid as error:
            refused.append(str(error))

    with context.exclusive():
        with context.exclusive():
            assert context.infer(x)
        thread = threading.Thread(target=intrude)
        thread.start()
        thread.join()
    assert len(refused) == 1 and "in use by another thread" in refused[0]
    assert context.infer(x)


def test_taking_and_letting_go_is_exclusive_without_a_block() -> None:
    context = Echo()
    context.take()
    context.take()  # the same thread may
    context.let_go()
    refused: list[str] = []

    def intrude() -> None:
        with pytest.raises(ContextInvalid, match="in use by another thread") as caught:
            context.take()
        refused.append(str(caught.value))

    thread = threading.Thread(target=intrude)
    thread.start()
    thread.join()
    context.let_go()
    assert len(refused) == 1
    context.close()
    with pytest.raises(ContextInvalid, match="is closed"):
        context.take()
    with pytest.raises(RuntimeError):  # a take that was refused leaves nothing to let go
        context.let_go()


def test_after_a_fork_the_parent_owns_it() -> None:
    context = Echo()
    context.take()  # as a thread that the child does not have
    context.abandon()
    with pytest.raises(ContextInvalid, match="belongs to the parent process"):
        context.infer(x)
    context.close()
    assert context.released == 0


def test_a_frame_writes_to_arrays_that_are_asked_for_after_the_run() -> None:
    context = Echo()
    arrays = [np.empty((1, 2, 3, 1), np.float32) for _ in range(2)]
    asked: list[float] = []

    def into() -> list[Any]:
        asked.append(context._given[0].data.max())
        return arrays

    assert context.frame([Input(0, x)], into) is arrays
    assert np.array_equal(arrays[1], x) and asked == [5]


@pytest.mark.parametrize(
    ("method", "step"),
    [("set_inputs", Step.SET_INPUTS), ("run", Step.RUN), ("get_outputs", Step.GET_OUTPUTS)],
)
def test_an_error_of_a_frame_tells_its_step(method: str, step: Step, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> None:
        raise ZeroDivisionError("odd")

    monkeypatch.setattr(Echo, method, fail)
    with pytest.raises(ZeroDivisionError, match="odd") as caught:
        Echo().frame([Input(0, x)])
    assert Step.of(caught.value) is step
    assert Step.of(ValueError()) is Step.SET_INPUTS, "before a frame"


def test_attributes_of_every_kind() -> None:
    context = Echo()
    for kind in AttrKind:
        if kind in (AttrKind.NATIVE_NHWC_INPUT, AttrKind.NATIVE_NHWC_OUTPUT):
            with pytest.raises(ParamInvalid, match=f"backend echo does not answer {kind.value} attributes"):
                context.attrs(kind)
        else:
            assert context.attrs(kind) == (context.inputs if kind.is_input else context.outputs)


def test_no_cycles() -> None:
    gc.disable()
    try:
        context = Echo()
        context.infer(x)
        watch = weakref.ref(context)
        del context
        assert watch() is None
    finally:
        gc.enable()


def test_abstract_classes_ask_for_their_methods() -> None:
    for cls in (Backend, Context):
        with pytest.raises(TypeError, match="abstract"):
            cls()  # type: ignore[abstract]


def test_backend_defaults() -> None:
    class Nothing(Backend):
        name = "nothing"

        def probe(self) -> Probe:
            return Probe(False, "nothing here")

        def open(self, model: Any, options: OpenOptions) -> Context:
            raise NotImplementedError

    backend = Nothing()
    assert backend.refuses(None) is None and backend.generation == "rknpu2"  # type: ignore[arg-type]
    with pytest.raises(RknnError, match="backend nothing has no matmul"):
        backend.matmul(None)
