"""What a context keeps: weights once, activations as long as somebody reads them, nothing after closing."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import subprocess
import sys
import tracemalloc
import types
import weakref

import numpy as np
import pytest
from rknnlite_cpu.plan import ExecutionPlan
from rknnlite_graph.graph import Graph, Node, TensorRole

from rknnlite.errors import InputInvalid
from rknnlite.spi import Context
from tests.support.corpus import ROOT, genuine, golden_of, open_cpu
from tests.support.graphs import tensor

SIDE = 256
ONE = SIDE * SIDE * 4  # bytes of one activation of the chains below


def chain(length: int, ops: tuple[str, ...]) -> ExecutionPlan:
    """``length`` operators in a row on one large tensor."""
    tensors = [tensor(f"t{i}", (1, 1, SIDE, SIDE)) for i in range(length + 1)]
    for index, item in enumerate(tensors):
        item.index = index
    tensors[0].role, tensors[-1].role = TensorRole.INPUT, TensorRole.OUTPUT
    nodes = [Node(i, ops[i % len(ops)], f"n{i}", [i], [i + 1]) for i in range(length)]
    return ExecutionPlan(Graph(tensors, nodes, [0], [length]), "chain")


def peak_of(plan: ExecutionPlan) -> int:
    x = np.ones((1, 1, SIDE, SIDE), np.float32)
    plan.run({0: x})
    tracemalloc.start()
    plan.run({0: x})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_activations_of_a_deep_chain_are_freed() -> None:
    """Two activations at a time, however deep: the one that is read and the one that is written."""
    shallow, deep = peak_of(chain(4, ("Relu", "Neg"))), peak_of(chain(100, ("Relu", "Neg")))
    assert deep <= shallow + ONE // 4
    assert deep <= 2.5 * ONE


def test_values_with_several_readers_live_until_the_last() -> None:
    """A value read at the very end costs one more activation, not one per step."""
    tensors = [tensor(f"t{i}", (1, 1, SIDE, SIDE)) for i in range(42)]
    for index, item in enumerate(tensors):
        item.index = index
    tensors[0].role = TensorRole.INPUT
    nodes = [Node(i, "Neg", f"n{i}", [i], [i + 1]) for i in range(40)]
    nodes.append(Node(40, "Add", "sum", [40, 1], [41]))
    plan = ExecutionPlan(Graph(tensors, nodes, [0], [41]), "skip")
    (result,) = plan.run({0: np.ones((1, 1, SIDE, SIDE), np.float32)}).values()
    assert (result == -1 + 1).all()
    assert peak_of(plan) <= 3.5 * ONE


def test_a_value_nobody_reads_is_dropped() -> None:
    plan = chain(3, ("Relu",))
    dead = Node(9, "Neg", "dead", [1], [4])
    graph = plan.graph
    graph.tensors.append(tensor("t4", (1, 1, SIDE, SIDE)))
    graph.tensors[4].index = 4
    again = ExecutionPlan(Graph(graph.tensors, [*graph.nodes, dead], [0], [3]), "dead end")
    assert 4 in again.steps[-1].drops


def test_outputs_in_the_middle_survive() -> None:
    plan = chain(4, ("Neg",))
    middle = ExecutionPlan(Graph(plan.graph.tensors, plan.graph.nodes, [0], [2, 4, 1]), "middle")
    results = middle.run({0: np.full((1, 1, SIDE, SIDE), 3, np.float32)})
    assert [float(results[i][0, 0, 0, 0]) for i in (1, 2, 4)] == [-3.0, 3.0, 3.0]


@pytest.mark.parametrize("name", ["conv_relu.rk3588.i8", "mobilenetv2_like.rk3576.i8", "lstm.rk3588.fp16"])
def test_weights_are_unpacked_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from rknnlite_graph.reading import weights

    context = open_cpu(genuine(name))
    inputs = golden_of(name).inputs
    expected = context.infer(inputs)

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("weights were unpacked again")

    for unpack in ("unpack_blocks", "unpack_pairs", "unpack_first_layer", "parse_bias", "surface_constant"):
        monkeypatch.setattr(weights, unpack, refuse)
    for got, want in zip(context.infer(inputs), expected):
        assert np.array_equal(got, want)


def test_no_memory_grows_from_run_to_run() -> None:
    context = open_cpu(genuine("mobilenetv2_like.rk3588.i8"))
    inputs = golden_of("mobilenetv2_like.rk3588.i8").inputs
    context.infer(inputs)
    gc.collect()
    tracemalloc.start()
    for _ in range(100):
        context.infer(inputs)
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(200):
        context.infer(inputs)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 16384, "an array object alone takes 112 bytes per run"


def collected_without_gc(make: object) -> bool:
    """Whether the context dies with its last reference, the garbage collector asleep."""
    gc.collect()
    gc.disable()
    try:
        context = make()  # type: ignore[operator]
        watch = weakref.ref(context)
        del context
        return watch() is None
    finally:
        gc.enable()


def used(name: str, close: bool) -> Context:
    context = open_cpu(genuine(name))
    context.infer([np.zeros(attr.dims, np.uint8) for attr in context.inputs])
    if close:
        context.close()
    return context


CYCLES = [
    "mean_std.rk3588.i8",
    "dynamic_three.rk3588.i8",
    "lstm_bidirectional.rk3562.i8",
    "vit_like.rk3588.i8",
]


@pytest.mark.parametrize("close", [True, False])
@pytest.mark.parametrize("name", CYCLES)
def test_no_reference_cycles(name: str, close: bool) -> None:
    assert collected_without_gc(lambda: used(name, close))


@pytest.mark.parametrize("name", CYCLES)
def test_nothing_inside_a_context_is_a_cycle_either(name: str) -> None:
    """What only the collector could free: nothing of ours (the standard library's literal parser leaves some)."""
    used(name, close=True)
    gc.collect()
    gc.disable()
    try:
        used(name, close=True)
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        kinds = {type(item) for item in gc.garbage}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not {kind.__name__ for kind in kinds if kind.__module__.startswith("rknnlite")}
    assert not kinds & {dict, functools.partial, types.MethodType}


def test_an_error_leaves_no_cycle() -> None:
    def failed() -> Context:
        context = open_cpu(genuine("mean_std.rk3588.i8"))
        with contextlib.suppress(InputInvalid):  # the traceback dies here
            context.infer(np.zeros((1, 2, 3)))
        return context

    assert collected_without_gc(failed)


def test_closing_gives_the_weights_back() -> None:
    name = "vit_like.rk3588.i8"
    open_cpu(genuine(name)).close()
    gc.collect()
    tracemalloc.start()
    context = open_cpu(genuine(name))
    held = tracemalloc.get_traced_memory()[0]
    context.close()
    left = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert left < held / 2, f"{left} of {held} bytes are still held"


ENDURANCE = """
import gc, sys
import numpy as np, psutil
import rknnlite_cpu
from rknnlite.formats import ModelFile
from rknnlite.spi import OpenOptions
from rknnlite_cpu.backend import CpuBackend

gc.disable()
context = CpuBackend().open(ModelFile(sys.argv[1]), OpenOptions())
image = np.zeros(context.inputs[0].dims, np.uint8)
process = psutil.Process()
for _ in range(2000):
    context.infer(image)
before = process.memory_info().rss
for _ in range(20000):
    context.infer(image)
print(process.memory_info().rss - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mean_std.rk3588.i8", "act_silu.rk3588.i8", "dense.rk3588.i8"])
def test_twenty_thousand_inferences_without_the_collector(name: str) -> None:
    path = os.pathsep.join([str(ROOT), str(ROOT / "plugins")])
    done = subprocess.run(
        [sys.executable, "-c", ENDURANCE, str(genuine(name))],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert int(done.stdout) < 1 << 20, f"resident memory grew by {done.stdout.strip()} bytes"
