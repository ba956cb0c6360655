"""Every genuine file of the repository on an engine: the bytes of the numpy kernels, as near to the vendor's simulator."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Optional

import numpy as np
import pytest
from rknnlite_cpu.engines.proof import is_floating

from rknnlite.spi import Context
from rknnlite.tensor import DType
from tests.cpu.test_corpus import CASES, graph_of
from tests.support.brothers import first_of_each
from tests.support.corpus import DATA, ROOT, genuine, goldens, open_cpu

SINGLE, HALF = 1e-4, 2e-3


def on(path: Path, engine: str, threads: Optional[int] = None, **extra: object) -> Context:
    return open_cpu(path, threads=threads, extra={"engine": engine, **extra})


def varied(given: list[np.ndarray]) -> Iterator[list[np.ndarray]]:
    """Inputs as they are stored, random over their range, and at its ends."""
    random = np.random.default_rng(1)
    yield given
    for draw in (random.uniform, lambda low, high, shape: random.choice([low, high], shape)):
        yield [_drawn(array, draw) for array in given]


def _drawn(array: np.ndarray, draw: Callable[..., np.ndarray]) -> np.ndarray:
    if array.dtype.kind == "f":
        return draw(float(array.min()) - 1, float(array.max()) + 1, array.shape).astype(array.dtype)
    if array.dtype.itemsize > 1:
        return array  # indices, lengths
    limits = np.iinfo(array.dtype)
    return np.rint(draw(limits.min, limits.max, array.shape)).astype(array.dtype)


@pytest.mark.parametrize(
    "path,archive", first_of_each(lambda case: case[0].name.partition(".")[0], CASES), ids=lambda p: p.stem
)
def test_same_bytes_as_the_numpy_kernels(path: Path, archive: Path) -> None:
    """Eight bits to the byte on any engine and number of threads; 16 bits and floats within bounds."""
    engines = ["onnxruntime", *(["native"] if shutil.which("cc") else [])]
    with ExitStack() as opened:
        slow = opened.enter_context(on(path, "numpy"))
        fast = [opened.enter_context(on(path, engine, threads)) for engine in engines for threads in (1, 3)]
        floating = any(is_floating(node) for node in graph_of(slow).nodes)
        for golden in goldens(archive):
            for context in (slow, *fast) if slow.shapes else ():
                context.set_shapes([array.shape for array in golden.inputs])
            for inputs in varied(golden.inputs):
                ours = slow.infer(inputs, raw=True)
                for theirs in (context.infer(inputs, raw=True) for context in fast):
                    for attr, a, b in zip(slow.outputs, ours, theirs):
                        check(attr.dtype, a, b, floating)


@pytest.mark.parametrize("name", ["act_silu.rk3588.i8", "act_gelu.rk3588.i8", "softmaxes.rk3588.i8"])
def test_what_is_near_is_as_near_to_the_simulator(name: str) -> None:
    """``engine_precise=False``: neighbours in some elements, no further from the simulator."""
    path = genuine(name)
    with on(path, "numpy") as slow, on(path, "onnxruntime", engine_precise=False) as fast:
        for golden in goldens(path.with_suffix(".npz")):
            ours, theirs = (context.infer(golden.inputs, raw=True) for context in (slow, fast))
            for a, b, simulated in zip(ours, theirs, golden.outputs):
                distance = np.abs(a.data.astype(np.int64) - b.data.astype(np.int64))
                assert distance.max() <= 2 and np.count_nonzero(distance) <= max(1, 0.005 * distance.size)
                real = [(r.data.astype(np.float32) - r.zero_point) * r.scale for r in (a, b)]
                near, far = (np.mean(np.abs(r - simulated) > 0.5 * a.scale) for r in reversed(real))
                assert near <= far + 0.002, "further from the simulator than the numpy kernels"


def check(dtype: DType, ours: object, theirs: object, floating: bool) -> None:
    a, b = np.asarray(ours.data), np.asarray(theirs.data)  # type: ignore[attr-defined]
    assert a.dtype == b.dtype and a.shape == b.shape
    if dtype.is_float:
        largest = float(np.abs(a).max(initial=1e-6))
        np.testing.assert_allclose(b, a, rtol=0, atol=(HALF if dtype is DType.FLOAT16 else SINGLE) * largest)
    elif not floating or dtype in (DType.INT8, DType.UINT8):
        assert np.array_equal(a, b)
    else:
        distance = np.abs(a.astype(np.int64) - b.astype(np.int64))
        assert distance.max(initial=0) <= 2 and np.count_nonzero(distance) <= max(1, 0.005 * a.size)


ALIKE = """
import sys
import numpy as np
import rknnlite
from tests.support.corpus import genuine, goldens

for name in sys.argv[1:]:
    golden = goldens(genuine(name).with_suffix(".npz"))[0]
    answers = []
    for engine in ("numpy", "openvino"):
        with rknnlite.open(genuine(name), backend="cpu", engine=engine) as context:
            if context.shapes:
                context.set_shapes([array.shape for array in golden.inputs])
            answers.append(context.infer(golden.inputs, raw=True))
    for a, b in zip(*answers):
        assert a.data.dtype.kind == "f" or np.array_equal(a.data, b.data), name
"""


@pytest.mark.slow
def test_openvino_gives_the_same_bytes() -> None:
    """In a program of its own: OpenVINO's threads stay in a process that has loaded it."""
    if find_spec("openvino") is None:
        pytest.skip("could not import 'openvino'")
    names = [path.stem for path, _ in CASES if path.stem.endswith(".i8") and path.parent == DATA]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "plugins")])
    done = subprocess.run(
        [sys.executable, "-c", ALIKE, *names], env={**os.environ, "PYTHONPATH": paths},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
