"""Runs that do not block: frames in flight, what they raise, and what may be done to their context meanwhile."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from rknnlite_backend import in_flight as in_flight_module

from rknnlite import errors
from rknnlite.spi import Context, Input, OpContext
from rknnlite.tensor import Layout
from tests.custom_ops.models import DUAL, FullDual, dual_golden
from tests.support.corpus import genuine, golden_of, open_cpu

PLAIN = "mean_std.rk3588.i8"
FLOAT = "dense_rows.rk3588.fp16"


class Gated(FullDual):
    """Computes when the gate is open; raises what ``faults`` has for the frame."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.inside = threading.Event(), threading.Event()
        self.faults: dict[int, BaseException] = {}
        self.frames = 0
        self.act: Any = None

    def compute(self, ctx: OpContext, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
        number, self.frames = self.frames, self.frames + 1
        self.inside.set()
        assert self.gate.wait(20), "the test never opened the gate"
        if self.act is not None:
            self.act()
        if number in self.faults:
            raise self.faults[number]
        super().compute(ctx, inputs, outputs)


@pytest.fixture
def op() -> Iterator[Gated]:
    gated = Gated()
    yield gated
    gated.gate.set()


@pytest.fixture
def slow(op: Gated) -> Iterator[Context]:
    """A context whose frames end when ``op.gate`` is open; inputs are set."""
    with open_cpu(DUAL, custom_ops=[op]) as context:
        put(context, *dual_golden().inputs)
        yield context
        op.gate.set()


def put(context: Context, *arrays: np.ndarray) -> None:
    context.set_inputs([Input(index, array) for index, array in enumerate(arrays)])


def expected(scale: float = 1.0) -> list[np.ndarray]:
    with open_cpu(DUAL, custom_ops=[FullDual()]) as context:
        return context.infer(*(array * np.float32(scale) for array in dual_golden().inputs))


def same(got: list[np.ndarray], wanted: list[np.ndarray]) -> bool:
    return len(got) == len(wanted) and all(np.array_equal(a, b) for a, b in zip(got, wanted))


# -- frames -------------------------------------------------------------------------------------------------


def test_start_and_wait() -> None:
    golden = golden_of(PLAIN)
    with open_cpu(genuine(PLAIN)) as context:
        wanted = context.infer(*golden.inputs)
        put(context, *golden.inputs)
        for number in range(1, 4):  # blocking runs count as well
            frame = context.start()
            assert frame == number
            context.wait(frame)
            assert same(context.get_outputs(), wanted)


def test_start_returns_before_the_frame_is_done(slow: Context, op: Gated) -> None:
    frame = slow.start()
    assert op.inside.wait(20) and op.calls == ["init"]
    op.gate.set()
    slow.wait(frame)
    assert op.calls == ["init", "compute"]
    assert same(slow.get_outputs(), expected())


def test_outputs_wait_by_themselves(slow: Context, op: Gated) -> None:
    slow.start()
    threading.Timer(0.02, op.gate.set).start()
    assert same(slow.get_outputs(), expected())


def test_a_timeout_is_typed_and_the_frame_goes_on(slow: Context, op: Gated) -> None:
    frame = slow.start(timeout_ms=1)
    for _ in range(2):
        with pytest.raises(errors.RunTimeout, match=r"frame 0 was not done in 1 ms; it goes on") as caught:
            slow.wait(frame, timeout_ms=1)
        assert caught.value.code == -2
    op.gate.set()
    slow.wait(frame, timeout_ms=20_000)
    slow.wait(frame)  # again: at once
    assert same(slow.get_outputs(), expected())


def test_several_frames_in_flight_each_on_its_own_inputs(slow: Context, op: Gated) -> None:
    """As on librknnrt: in the order of their beginning, outputs are those of the last one."""
    frames = []
    for scale in (1.0, 0.5, 0.25):
        put(slow, *(array * np.float32(scale) for array in dual_golden().inputs))
        frames.append(slow.start())
    assert frames == [0, 1, 2]
    op.gate.set()
    slow.wait(frames[0])
    slow.wait(frames[2])
    assert same(slow.get_outputs(), expected(0.25))
    slow.wait(frames[1])  # in any order
    slow.run()
    assert same(slow.get_outputs(), expected(0.25)) and slow.start() == 4


def test_inputs_may_be_overwritten_at_once(slow: Context, op: Gated) -> None:
    arrays = [np.array(array, np.float32) for array in dual_golden().inputs]
    put(slow, *arrays)
    slow.start()
    for array in arrays:
        array[...] = 1e3
    op.gate.set()
    assert same(slow.get_outputs(), expected())


def test_inputs_are_taken_when_they_are_set() -> None:
    """``set_inputs`` copies also what needs no conversion, as the runtime does."""
    with open_cpu(genuine(FLOAT)) as context:
        (given,) = golden_of(FLOAT).inputs
        row = np.array(given, np.float32)
        wanted = context.infer(row)
        context.set_inputs([Input(0, row, Layout.UNDEFINED)])
        row[...] = 0.25
        context.run()
        assert same(context.get_outputs(), wanted)


def test_async_mode_answers_the_frame_before_without_waiting(op: Gated) -> None:
    with open_cpu(DUAL, custom_ops=[op], async_mode=True) as context:
        op.gate.set()
        put(context, *dual_golden().inputs)
        context.wait(context.start())
        assert same(context.get_outputs(), expected()) and context.frame_id == 0
        op.gate.clear()
        op.inside.clear()
        put(context, *(array * np.float32(0.5) for array in dual_golden().inputs))
        assert context.start() == 1
        assert op.inside.wait(20)
        assert same(context.get_outputs(), expected()) and context.frame_id == 0  # frame 1 is under way
        op.gate.set()
        context.start()
        assert same(context.get_outputs(), expected(0.5)) and context.frame_id == 1


def test_frames_that_queue_up_are_few(slow: Context, op: Gated, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each holds its inputs: ``start`` waits where a program begins more than it lets end."""
    monkeypatch.setattr(in_flight_module, "_MOST", 3)
    for _ in range(3):
        slow.start()
    threading.Timer(0.02, op.gate.set).start()
    assert slow.start() == 3 and op.calls.count("compute") >= 1


# -- errors -------------------------------------------------------------------------------------------------


def test_errors_are_delivered_at_wait_once(slow: Context, op: Gated) -> None:
    op.faults = {0: RuntimeError("out of ink"), 2: RuntimeError("out of paper")}
    op.gate.set()
    frames = [slow.start() for _ in range(3)]
    slow.wait(frames[1])  # the failure of another frame is not this one's
    with pytest.raises(errors.RknnError, match="out of ink"):
        slow.wait(frames[0])
    with pytest.raises(errors.RknnError, match="out of paper"):
        slow.get_outputs()
    slow.wait(frames[0])
    with pytest.raises(errors.ContextInvalid, match="run the model before"):
        slow.get_outputs()
    slow.run()
    assert same(slow.get_outputs(), expected())


def test_a_run_that_failed_leaves_no_outputs_of_the_run_before(slow: Context, op: Gated) -> None:
    op.faults, _ = {1: RuntimeError("out of ink")}, op.gate.set()
    slow.run()
    with pytest.raises(errors.RknnError, match="out of ink"):
        slow.run()
    with pytest.raises(errors.ContextInvalid, match="run the model before"):
        slow.get_outputs()


def test_waiting_without_a_start() -> None:
    with open_cpu(genuine(PLAIN)) as context:
        with pytest.raises(errors.ParamInvalid, match="frame 0 is not under way; none has begun: call start"):
            context.wait(0)
        with pytest.raises(errors.ContextInvalid, match="set inputs before running"):
            context.start()
        context.infer(*golden_of(PLAIN).inputs)
        context.wait(0)
        for wrong in (-1, 1, 1 << 40):
            with pytest.raises(
                errors.ParamInvalid, match=f"frame {wrong} is not under way; the last one .* is 0"
            ):
                context.wait(wrong)
        with pytest.raises(errors.ParamInvalid, match="timeout_ms is -5"):
            context.wait(0, timeout_ms=-5)
        with pytest.raises(errors.ParamInvalid, match="timeout_ms is -5"):
            context.start(timeout_ms=-5)


def test_calls_from_inside_a_frame(slow: Context, op: Gated) -> None:
    """An operator that waits for its own frame would wait for ever."""
    caught: list[BaseException] = []
    told = threading.Event()

    def act() -> None:
        for call in (lambda: slow.wait(0), slow.get_outputs, slow.run, slow.close):
            with pytest.raises(errors.ContextInvalid, match="inside a custom operator") as info:
                call()
            caught.append(info.value)
        told.set()

    op.act = act
    frame = slow.start()
    assert op.inside.wait(20)
    op.gate.set()
    assert told.wait(20)
    slow.wait(frame)
    assert len(caught) == 4


def test_where_no_thread_can_be_had(slow: Context, op: Gated, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the program ends, a frame is computed by ``start`` itself; its error still comes at ``wait``."""

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    op.gate.set()
    op.faults = {1: RuntimeError("out of ink")}
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert slow.start() == 0
    assert same(slow.get_outputs(), expected())
    assert slow.start() == 1
    with pytest.raises(errors.RknnError, match="out of ink"):
        slow.wait(1)


# -- meanwhile ----------------------------------------------------------------------------------------------


def test_release_during_a_run(slow: Context, op: Gated) -> None:
    """The frame under way is waited for, the next is given up, whoever waits hears of it."""
    first, second = slow.start(), slow.start()
    assert op.inside.wait(20)
    heard: list[BaseException] = []

    def wait() -> None:
        try:
            slow.wait(second)
        except errors.ContextInvalid as error:
            heard.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()
    closer = threading.Thread(target=slow.close)
    closer.start()
    closer.join(0.05)
    assert closer.is_alive() and not slow.closed
    op.gate.set()
    closer.join(20)
    waiter.join(20)
    assert slow.closed and op.calls == ["init", "compute", "destroy"]
    assert len(heard) == 1 and "closed" in str(heard[0])
    with pytest.raises(errors.ContextInvalid, match="this context is closed"):
        slow.wait(first)


def test_a_context_that_is_dropped_during_a_run(op: Gated) -> None:
    context = open_cpu(DUAL, custom_ops=[op])
    put(context, *dual_golden().inputs)
    context.start()
    assert op.inside.wait(20)
    gone = weakref.ref(context)
    del context
    op.gate.set()
    for _ in range(1000):
        gc.collect()
        if gone() is None:
            break
        threading.Event().wait(0.01)
    assert gone() is None and op.calls[:2] == ["init", "compute"]


def test_settings_wait_for_the_frame(slow: Context, op: Gated) -> None:
    slow.start()
    threading.Timer(0.02, op.gate.set).start()
    slow.register_ops([FullDual()])
    assert op.calls == ["init", "compute", "destroy"]
    assert list(slow.perf_table())
    slow.run()
    assert same(slow.get_outputs(), expected())


def test_a_frame_belongs_to_the_process_that_began_it(slow: Context, op: Gated) -> None:
    slow.start()
    assert op.inside.wait(20)
    child = os.fork()
    if child == 0:  # no assert in here: the child must not run pytest's machinery
        status = 1
        try:
            slow.wait(0)
        except errors.ContextInvalid as error:
            op.gate.set()
            slow.run()
            status = 0 if "before a fork" in str(error) and same(slow.get_outputs(), expected()) else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    op.gate.set()
    slow.wait(0)


# -- bound memory -------------------------------------------------------------------------------------------


def bound(context: Context) -> tuple[list[Any], list[Any]]:
    """Memory for all tensors; inputs hold the golden data as stored."""
    sides = []
    for attrs in (context.native_inputs, context.native_outputs):
        memories = [context.create_mem(attr.size_with_stride or attr.size) for attr in attrs]
        for attr, memory in zip(attrs, memories):
            memory.ndarray[...] = 3
            context.bind(attr, memory)
        sides.append(memories)
    return sides[0], sides[1]


def test_bound_memory_is_written_when_the_frame_ends(op: Gated) -> None:
    op.gate.set()
    with open_cpu(DUAL, custom_ops=[op]) as context:
        inputs, outputs = bound(context)
        context.run()
        wanted = [memory.ndarray.copy() for memory in outputs]
        for memory in outputs:
            memory.ndarray[...] = 0x55
        op.gate.clear()
        frame = context.start()
        for memory in inputs:
            memory.ndarray[...] = 0  # the frame has its data
        assert all((memory.ndarray == 0x55).all() for memory in outputs)
        op.gate.set()
        context.wait(frame)
        assert same([memory.ndarray for memory in outputs], wanted)


def test_memory_that_is_closed_during_a_run(op: Gated) -> None:
    with open_cpu(DUAL, custom_ops=[op]) as context:
        inputs, outputs = bound(context)
        view = outputs[0].ndarray
        frame = context.start()
        for memory in (*inputs, outputs[0]):
            memory.close()
        op.gate.set()
        with pytest.raises(
            errors.ContextInvalid, match=r"output .*: its memory was closed while the frame ran"
        ):
            context.wait(frame)
        assert (view == 3).all()


# -- a coprocessor that is played ---------------------------------------------------------------------------


def test_a_played_coprocessor_has_one_frame_at_a_time(op: Gated) -> None:
    with open_cpu(DUAL, custom_ops=[op], soc="rk1820") as context:
        with pytest.raises(errors.ParamInvalid, match="none has begun"):
            context.wait(0)
        put(context, *dual_golden().inputs)
        op.faults = {1: RuntimeError("out of ink")}
        first = context.start()
        threading.Timer(0.02, op.gate.set).start()
        second = context.start()  # waits for the first
        assert op.calls.count("compute") >= 1
        with pytest.raises(
            errors.ParamInvalid, match=f"frame {first} is not under way; the last one .* is {second}"
        ):
            context.wait(first)
        with pytest.raises(errors.RknnError, match="out of ink"):
            context.start()
        context.wait(context.start())
        assert same(context.get_outputs(), expected())


def test_the_time_of_a_run_on_a_played_coprocessor(op: Gated) -> None:
    """``timeout_ms`` of ``open``, as ``rknn3_model_init`` takes it: the run fails, and says so at ``wait``."""
    with open_cpu(DUAL, custom_ops=[op], soc="rk1820", timeout_ms=5) as context:
        put(context, *dual_golden().inputs)
        op.act = lambda: threading.Event().wait(0.02)
        op.gate.set()
        with pytest.raises(errors.RunTimeout, match=r"was not done in 5 ms \(timeout_ms\)"):
            context.run()
        frame = context.start()
        with pytest.raises(errors.RunTimeout, match=r"was not done in 5 ms \(timeout_ms\)"):
            context.wait(frame)
        with pytest.raises(errors.ContextInvalid, match="run the model before"):
            context.get_outputs()
    with open_cpu(DUAL, custom_ops=[op], timeout_ms=5) as context:  # a board's runtime has no such limit
        put(context, *dual_golden().inputs)
        context.run()
