"""Numpy first, then the fastest engine, found while frames run."""

from __future__ import annotations

import logging
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
from rknnlite_cpu.engines import choice, fastest, prover, tiers
from rknnlite_cpu.engines.with_onnxruntime import OnnxRuntime
from rknnlite_cpu.plan import LateKernel

import rknnlite
from rknnlite.cli import main
from rknnlite.spi import Context
from rknnlite.spi.custom_op import as_custom_op
from tests.cpu.test_corpus import graph_of
from tests.custom_ops.models import DUAL, PlainDual, dual_golden
from tests.support.corpus import ROOT, genuine, golden_of, open_cpu

RESIDUAL = "resnet_like.rk3588.i8"
HALF = "conv_relu.rk3588.fp16"
THREAD = "rknnlite-engines"
LONG = 30.0
DIGEST = 32


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No engine is asked for, there is onnxruntime alone, and the first frame begins to look for it."""
    monkeypatch.delenv("RKNNLITE_ENGINE", raising=False)
    monkeypatch.setattr(choice, "candidates", lambda: ["onnxruntime"])
    monkeypatch.setattr(tiers, "_PATIENCE", 0.0)
    yield
    assert wait_for(lambda: not proving()), "a thread is left"


def proving() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == THREAD]


def wait_for(what: Any) -> bool:
    end = time.monotonic() + LONG
    while not what() and time.monotonic() < end:
        time.sleep(0.01)
    return bool(what())


def raw(context: Context, name: str = RESIDUAL) -> list[bytes]:
    return [answer.data.tobytes() for answer in context.infer(golden_of(name).inputs, raw=True)]


def plan_of(context: Any) -> Any:
    return context._shapes.current.plan


def until_settled(context: Context, name: str = RESIDUAL) -> int:
    """Frames until nothing is to be tried; each has the bytes of the first."""
    first, count = raw(context, name), 1
    end = time.monotonic() + LONG
    while plan_of(context)._tiers is not None and time.monotonic() < end:
        assert raw(context, name) == first
        count += 1
    return count


def kept(cache: Path) -> list[str]:
    """Engines that are kept as the fastest, without their checksums."""
    return [path.read_bytes()[:-DIGEST].decode().partition(" ")[0] for path in cache.rglob("fastest")]


def slow_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small network is no faster on an engine: let time be told otherwise."""
    compare = tiers._Trial.compare

    def favoured(self: Any, edges: Any) -> bool:
        more = compare(self, edges)
        self.numpy_seconds = 1e3
        return more

    monkeypatch.setattr(tiers._Trial, "compare", favoured)


def test_the_engine_takes_over_and_the_numpy_kernels_are_given_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    slow_numpy(monkeypatch)
    with open_cpu(genuine(RESIDUAL)) as context, caplog.at_level(logging.INFO, "rknnlite"):
        assert until_settled(context) > tiers._FRAMES
        plan = plan_of(context)
        inside = {node.index for island in plan._accelerator._islands for node in island.segment.nodes}
        kernels = [step.kernel for step in plan.steps if step.node.index in inside]
        assert inside and all(isinstance(kernel, LateKernel) and kernel._kernel is None for kernel in kernels)
        assert raw(context) == expected(RESIDUAL)
    assert "are computed by the engine onnxruntime from now on" in caplog.text


def expected(name: str) -> list[bytes]:
    with open_cpu(genuine(name), extra={"engine": "numpy"}) as context:
        return raw(context, name)


def test_a_short_program_tries_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "_PATIENCE", 60.0)
    monkeypatch.setattr(choice, "engines", None)
    with open_cpu(genuine(RESIDUAL)) as context:
        for _ in range(5):
            raw(context)
        assert not proving()


def test_a_later_process_begins_with_what_was_found(monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> None:
    slow_numpy(monkeypatch)
    with open_cpu(genuine(RESIDUAL)) as context:
        until_settled(context)
    assert kept(own_cache) == ["onnxruntime"]
    monkeypatch.setattr(prover, "Prover", None)
    with open_cpu(genuine(RESIDUAL)) as context:
        assert plan_of(context)._tiers is None
        assert raw(context) == expected(RESIDUAL) and plan_of(context)._accelerator._islands


def test_an_engine_that_is_no_faster_stays_out(monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> None:
    compare = tiers._Trial.compare

    def slow(self: Any, edges: Any) -> bool:
        more = compare(self, edges)
        self.seconds = 1e3
        return more

    monkeypatch.setattr(tiers._Trial, "compare", slow)
    with open_cpu(genuine(RESIDUAL)) as context:
        until_settled(context)
        assert plan_of(context)._accelerator is None
    assert kept(own_cache) == ["numpy"]
    with open_cpu(genuine(RESIDUAL)) as context:
        assert plan_of(context)._tiers is None and plan_of(context)._accelerator is None


def test_other_bytes_on_a_real_frame_keep_an_engine_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    slow_numpy(monkeypatch)
    same = tiers._Trial._same
    monkeypatch.setattr(tiers._Trial, "_same", lambda self, *given: same(self, *given) and False)
    with open_cpu(genuine(RESIDUAL)) as context, caplog.at_level(logging.INFO, "rknnlite"):
        until_settled(context)
        assert plan_of(context)._accelerator is None
    assert "has other bytes on a real frame" in caplog.text


def test_an_engine_that_fails_stays_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*args: Any) -> Any:
        raise RuntimeError("no such kernel")

    monkeypatch.setattr(OnnxRuntime, "compile", broken)
    with open_cpu(genuine(RESIDUAL)) as context, caplog.at_level(logging.INFO, "rknnlite"):
        until_settled(context)
        assert plan_of(context)._accelerator is None
    assert "no such kernel" in caplog.text


def test_the_fastest_of_several_computes_in_the_end(monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> None:
    class Second(OnnxRuntime):
        name = "second"
        version = "second 1"

    engines = {"onnxruntime": (OnnxRuntime(),), "second": (Second(),)}
    monkeypatch.setattr(choice, "candidates", lambda: list(engines))
    monkeypatch.setattr(choice, "engines", engines.get)
    monkeypatch.setattr(choice, "version", lambda name: f"{name} 1")
    compare = tiers._Trial.compare

    def told(self: Any, edges: Any) -> bool:
        more = compare(self, edges)
        self.numpy_seconds, self.seconds = 3.0, {"onnxruntime": 2.0, "second": 1.0}[self.name]
        return more

    monkeypatch.setattr(tiers._Trial, "compare", told)
    with open_cpu(genuine(RESIDUAL)) as context:
        until_settled(context)
        assert {each.engine.name for each in plan_of(context)._accelerator._islands} == {"second"}
    assert kept(own_cache) == ["second"]


@pytest.mark.parametrize("name,same", [(RESIDUAL, True), ("mobilenetv2_like.rk3588.i8", True), (HALF, False)])
def test_networks_whose_results_hang_on_a_last_bit_keep_what_they_begin_with(name: str, same: bool) -> None:
    with open_cpu(genuine(name), extra={"engine": "numpy"}) as context:
        assert fastest.same_on_all(graph_of(context)) == same


def test_a_float_network_has_its_engine_from_the_first_frame_on() -> None:
    with open_cpu(genuine(HALF)) as context:
        first = raw(context, HALF)
        assert plan_of(context)._tiers is None and plan_of(context)._accelerator._islands
        assert raw(context, HALF) == first and not proving()


def test_an_engine_that_is_asked_for_computes_at_once() -> None:
    with open_cpu(genuine(RESIDUAL), extra={"engine": "onnxruntime"}) as context:
        raw(context)
        assert plan_of(context)._accelerator._islands and not proving()


def held(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """A proof that takes as long as a test likes: between two of its steps it goes on when the event is set."""
    gate, entered = threading.Event(), threading.Event()
    go_on = tiers.Tiers._go_on

    def wait(self: Any) -> None:
        entered.set()
        while not gate.wait(0.005):
            go_on(self)
        go_on(self)

    monkeypatch.setattr(tiers.Tiers, "_go_on", wait)
    gate.entered = entered  # type: ignore[attr-defined]
    return gate


def test_closing_ends_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = held(monkeypatch)
    with open_cpu(genuine(RESIDUAL)) as context:
        raw(context)
        assert gate.entered.wait(LONG) and proving()  # type: ignore[attr-defined]
    assert wait_for(lambda: not proving()) and not gate.is_set()


def test_a_twin_shares_the_proof_and_goes_on_when_the_other_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow_numpy(monkeypatch)
    gate = held(monkeypatch)
    with open_cpu(genuine(RESIDUAL)) as context:
        raw(context)
        twin = context.dup()
        raw(twin)
        assert len(proving()) == 1
    with twin:
        gate.set()
        until_settled(twin)
        assert plan_of(twin)._accelerator._islands


def test_a_pool_shares_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    slow_numpy(monkeypatch)
    inputs, right = golden_of(RESIDUAL).inputs, None
    with rknnlite.Pool(genuine(RESIDUAL), 2, backend="cpu") as pool:
        for _ in range(100):
            for answer in [pool.submit(*inputs) for _ in range(4)]:
                found = [np.asarray(part).tobytes() for part in answer.result()]
                right = right or found
                assert found == right
            assert len(proving()) <= 1


def test_custom_operators_are_called_by_frames_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    slow_numpy(monkeypatch)
    callers = set()

    class Noted(PlainDual):
        def compute(self, node: Any, inputs: Any) -> Any:
            callers.add(threading.current_thread())
            return super().compute(node, inputs)

    inputs = dual_golden().inputs
    with open_cpu(DUAL, custom_ops=[as_custom_op(Noted())]) as context:
        first = [answer.data.tobytes() for answer in context.infer(inputs, raw=True)]
        end = time.monotonic() + LONG
        while plan_of(context)._tiers is not None and time.monotonic() < end:
            assert [answer.data.tobytes() for answer in context.infer(inputs, raw=True)] == first
    assert callers == {threading.current_thread()}


def test_a_forked_child_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("no fork here")
    slow_numpy(monkeypatch)
    gate = held(monkeypatch)
    with open_cpu(genuine(RESIDUAL)) as context:
        first = raw(context)
        assert gate.entered.wait(LONG)  # type: ignore[attr-defined]
        child = os.fork()
        if child == 0:
            gate.set()
            same = raw(context) == first
            until_settled(context)
            os._exit(0 if same and raw(context) == first and plan_of(context)._accelerator else 1)
        assert os.waitpid(child, 0)[1] == 0


ENDING = """
import sys, threading, numpy as np, rknnlite
from rknnlite_cpu.engines import tiers

tiers._PATIENCE, tiers._BREATH = 0.0, 0.5
context = rknnlite.open(sys.argv[1], backend="cpu")
context.infer([np.zeros(attr.dims, np.uint8) for attr in context.inputs])
assert any(thread.name == "rknnlite-engines" for thread in threading.enumerate())
"""


def test_a_program_that_ends_does_not_wait_for_the_proof(own_cache: Path) -> None:
    paths = os.pathsep.join([str(ROOT), str(ROOT / "plugins")])
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", ENDING, str(genuine(RESIDUAL))], env={**os.environ, "PYTHONPATH": paths},
        capture_output=True, text=True, check=False, timeout=LONG,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Error" not in done.stderr and not any(own_cache.rglob("verdict"))


INFO = """
import sys
import rknnlite_graph.reading.builder as builder
from rknnlite.cli import main

read, build = [], builder.build_graph
builder.build_graph = lambda *given: read.append(given) or build(*given)
assert main(["info", sys.argv[1]]) == 0
assert len(read) == 1, "the graph is read once"
assert not {"rknnlite_cpu.plan", "rknnlite_cpu.ops", "onnxruntime"}.intersection(sys.modules), "nothing computes"
"""


def test_info_reads_a_graph_once_and_loads_no_kernels() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INFO, str(genuine(RESIDUAL))], capture_output=True, text=True, check=False, timeout=LONG
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_info_tells_which_engine_computes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def told(name: str) -> str:
        assert main(["info", str(genuine(name))]) == 0
        return next(line for line in capsys.readouterr().out.splitlines() if line.startswith("CPU engine:"))

    assert told(RESIDUAL).endswith("numpy at first; onnxruntime if that is faster, tried while frames run")
    slow_numpy(monkeypatch)
    with open_cpu(genuine(RESIDUAL)) as context:
        until_settled(context)
    assert "onnxruntime for " in told(RESIDUAL) and told(RESIDUAL).endswith("the fastest on this machine")
    assert "onnxruntime, from the first frame on" in told(HALF)
    monkeypatch.setenv("RKNNLITE_ENGINE", "numpy")
    assert told(RESIDUAL).endswith("numpy, as the setting `engine` says")
