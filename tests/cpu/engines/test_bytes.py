"""Every genuine file of the repository on an engine: the bytes of the numpy kernels, as near to the vendor's simulator."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from rknnlite_cpu.engines.proof import is_floating

from rknnlite.spi import Context
from rknnlite.tensor import DType
from tests.cpu.test_corpus import CASES, graph_of
from tests.support.brothers import first_of_each
from tests.support.corpus import ROOT, goldens, open_cpu

SINGLE, HALF = 1e-4, 2e-3


def on(path: Path, engine: str) -> Context:
    return open_cpu(path, extra={"engine": engine})


@pytest.mark.parametrize(
    "path,archive", first_of_each(lambda case: case[0].name.partition(".")[0], CASES), ids=lambda p: p.stem
)
def test_same_bytes_as_the_numpy_kernels(path: Path, archive: Path) -> None:
    with on(path, "numpy") as slow, on(path, "onnxruntime") as fast:
        floating = any(is_floating(node) for node in graph_of(slow).nodes)
        for golden in goldens(archive):
            if slow.shapes:
                shapes = [array.shape for array in golden.inputs]
                slow.set_shapes(shapes)
                fast.set_shapes(shapes)
            ours, theirs = (context.infer(golden.inputs, raw=True) for context in (slow, fast))
            for attr, a, b, simulated in zip(slow.outputs, ours, theirs, golden.outputs):
                check(attr.dtype, a, b, floating)
                if attr.dtype in (DType.INT8, DType.UINT8) and a.data.shape == simulated.shape:
                    real = [(r.data.astype(np.float32) - r.zero_point) * r.scale for r in (a, b)]
                    near, far = (np.mean(np.abs(r - simulated) > 0.5 * a.scale) for r in reversed(real))
                    assert near <= far + 0.002, "further from the simulator than the numpy kernels"


def check(dtype: DType, ours: object, theirs: object, floating: bool) -> None:
    a, b = np.asarray(ours.data), np.asarray(theirs.data)  # type: ignore[attr-defined]
    assert a.dtype == b.dtype and a.shape == b.shape
    if dtype.is_float:
        largest = float(np.abs(a).max(initial=1e-6))
        np.testing.assert_allclose(b, a, rtol=0, atol=(HALF if dtype is DType.FLOAT16 else SINGLE) * largest)
    elif not floating:
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
            answers.append(context.infer(golden.inputs, raw=True))
    assert all(np.array_equal(a.data, b.data) for a, b in zip(*answers)), name
"""


def test_openvino_gives_the_same_bytes() -> None:
    """In a program of its own: OpenVINO's threads stay in a process that has loaded it."""
    if find_spec("openvino") is None:
        pytest.skip("could not import 'openvino'")
    names = [
        f"{name}.i8" for name in ("dense.rk3588", "conv_relu.rk3576", "batch_four.rk3588", "resize.rk3588")
    ]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "plugins")])
    done = subprocess.run(
        [sys.executable, "-c", ALIKE, *names], env={**os.environ, "PYTHONPATH": paths},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
