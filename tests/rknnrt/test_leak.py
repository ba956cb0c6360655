"""Nothing grows: 100,000 inferences with the garbage collector off, with one and with nine outputs; fault runs."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from rknnlite_rknnrt import device

import rknnlite
from rknnlite.api import RKNNLite
from rknnlite.errors import RknnError
from rknnlite.spi import Input
from tests.doubles.double import Double, model

from .models import AFFINE, picture

NINE = (
    "input image int8 4 1 4 6 3 0.5 -3",
    *(f"output o{i} int8 2 1 200 0.1 5" for i in range(9)),
    "op idle",
)
ONE = ("input image int8 4 1 4 6 3 0.5 -3", "output scores int8 2 1 1000 0.1 5", "op idle")
SLACK = 256  # kB of resident memory that the allocator may move


def resident() -> int:
    """Resident memory of this process in kB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def no_collector() -> Iterator[None]:
    """What is not given back by counting references stays."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def flat(once: Callable[[], object], count: int) -> None:
    """Run ``once`` often; memory, descriptors and cycles are what they were after a tenth of it."""
    for _ in range(count // 10):
        once()
    gc.collect()
    memory, files = resident(), descriptors()
    for _ in range(count):
        once()
    assert resident() - memory <= SLACK
    assert descriptors() == files
    assert gc.collect() == 0  # unreachable objects that only the collector would have found


@pytest.mark.slow
@pytest.mark.parametrize("lines", [ONE, NINE], ids=["one output", "nine outputs"])
def test_inferences_on_the_face(
    double: Double, tmp_path: Path, no_collector: None, lines: tuple[str, ...]
) -> None:
    path = tmp_path / "model.rknn"
    path.write_bytes(model(*lines))
    rknn, inputs = RKNNLite(), [picture()]
    assert rknn.load_rknn(str(path)) == 0 and rknn.init_runtime() == 0
    flat(lambda: rknn.inference(inputs=inputs), 100_000)
    rknn.release()
    assert double.live() == {}


@pytest.mark.slow
def test_inferences_on_the_native_api(double: Double, no_collector: None) -> None:
    image = picture()
    with rknnlite.open(model(*NINE)) as context:
        flat(lambda: context.infer(image), 20_000)
    with rknnlite.open(model(*ONE)) as context:
        for attr in (*context.native_inputs, *context.native_outputs):
            context.bind(attr, context.create_mem(attr.size_with_stride))
        flat(context.run, 100_000)
        flat(lambda: context.create_mem(4096).ndarray.fill(1), 2_000)
    assert double.live() == {}


@pytest.mark.parametrize("options", [{}, {"model_in_npu_memory": True}], ids=["plain", "in NPU memory"])
def test_opening_and_closing(double: Double, no_collector: None, options: dict[str, bool]) -> None:
    def once() -> None:
        with rknnlite.open(model(*AFFINE), **options) as context:
            context.infer(picture())
            context.dup().close()

    flat(once, 200)
    assert double.live() == {}


def test_fault_runs(double: Double, no_collector: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "look", lambda: device.NodeState(("/dev/dri/renderD129",), ""))
    functions = ("rknn_init", "rknn_query", "rknn_inputs_set", "rknn_run", "rknn_outputs_get")
    failed = []

    def once() -> None:
        double.reset()
        double.fault(functions[len(failed) % len(functions)], -1 - len(failed) % 13)
        try:
            with rknnlite.open(model(*AFFINE)) as context:
                context.create_mem(64)
                context.infer(picture())
        except RknnError as error:
            failed.append(error.code)
        assert double.live() == {}

    flat(once, 500)
    assert len(failed) == 550


def test_faults_on_the_face(
    double: Double, tmp_path: Path, no_collector: None, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.rknn"
    path.write_bytes(model(*AFFINE))
    rknn, inputs, answers = RKNNLite(), [picture()], []
    rknn.load_rknn(str(path))

    def once() -> None:
        assert rknn.init_runtime() == 0
        double.reset()
        double.fault("rknn_run", -2)
        answers.append(rknn.inference(inputs=inputs))
        capfd.readouterr()

    flat(once, 300)
    assert answers == [None] * 330
    rknn.release()
    assert double.live() == {}


def test_a_leak_would_be_noticed(double: Double, no_collector: None) -> None:
    class Node:
        pass

    def once() -> None:
        node = Node()
        node.itself = node  # type: ignore[attr-defined]

    with pytest.raises(AssertionError), rknnlite.open(model(*AFFINE)) as context:
        context.set_inputs([Input(0, picture())])
        flat(once, 20)
    kept: list[np.ndarray] = []
    with pytest.raises(AssertionError):
        flat(lambda: kept.append(np.ones(1_000_000)), 30)  # more than the allocator may have free
