"""Other people's runtimes read what we write: OpenCV and OpenVINO."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.brothers import slow_unless

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import rknnlite
from tests.support.corpus import genuine, golden_of, open_cpu

from .support import feeds, onnx

FLOATS = ("act_prelu.rk3588.i8", "conv_3x3_wide.rk3588.i8", "deconv_k3_s2.rk3588.i8", "residual_silu_add.rk3588.i8",
          "resnet_like.rk3588.i8", "two_images.rk3588.i8")  # fmt: skip


def in_float(name: str) -> tuple[Any, dict[str, np.ndarray], list[np.ndarray]]:
    """A network in the form float, inputs for it, and what the reference computes."""
    golden = golden_of(name)
    network = rknnlite.to_onnx(genuine(name), "float", normalise=True)
    return network, feeds(name, network, golden.inputs), open_cpu(genuine(name), extra={"fidelity": "float"}).infer(
        golden.inputs
    )  # fmt: skip


def near(got: np.ndarray, want: np.ndarray) -> bool:
    return got.size == want.size and float(np.abs(got.reshape(-1) - want.reshape(-1)).max()) <= 1e-4 * float(
        np.abs(want).max()
    )


@pytest.mark.parametrize("name", FLOATS)
def test_opencv_reads_the_form_float(name: str, tmp_path: Path) -> None:
    cv2 = pytest.importorskip("cv2")
    network, inputs, expected = in_float(name)
    onnx.save(network, tmp_path / "network.onnx")
    net = cv2.dnn.readNetFromONNX(str(tmp_path / "network.onnx"))
    for key, value in inputs.items():
        net.setInput(value, key)
    results = net.forward([each.name for each in network.graph.output])
    for got, want in zip(results, expected):
        assert near(got, want)


OPENVINO = """
import sys, numpy as np, openvino
core = openvino.Core()
network = core.compile_model(sys.argv[1], "CPU", {"INFERENCE_PRECISION_HINT": "f32", "LP_TRANSFORMS_MODE": False})
given = np.load(sys.argv[2])
results = network({each.any_name: given[each.any_name] for each in network.inputs})
np.savez(sys.argv[3], *[results[each] for each in network.outputs])
"""


@pytest.fixture(scope="module")
def openvino_python() -> str:
    """An interpreter that has OpenVINO: this one, or the one of ``RKNNLITE_OPENVINO_PYTHON``."""
    python = os.environ.get("RKNNLITE_OPENVINO_PYTHON", sys.executable)
    if subprocess.run([python, "-c", "import openvino"], capture_output=True, check=False).returncode:
        pytest.skip("RKNNLITE_OPENVINO_PYTHON names no Python that has OpenVINO")
    return python


READ = [("float", name) for name in FLOATS] + [
    ("qdq", name)
    for name in FLOATS
    if "deconv" not in name  # docs/onnx.md, limits
]


@pytest.mark.parametrize(("form", "name"), slow_unless(lambda case: case in READ[::4], READ))
def test_openvino_reads_it(name: str, form: str, openvino_python: str, tmp_path: Path) -> None:
    network, inputs, expected = in_float(name)
    if form == "qdq":
        network = rknnlite.to_onnx(genuine(name), form, normalise=True)
    onnx.save(network, tmp_path / "network.onnx")
    np.savez(tmp_path / "in.npz", **inputs)
    files = [str(tmp_path / each) for each in ("network.onnx", "in.npz", "out.npz")]
    subprocess.run([openvino_python, "-c", OPENVINO, *files], check=True, capture_output=True)
    with np.load(tmp_path / "out.npz") as stored:
        results = [stored[each] for each in stored.files]
    context = open_cpu(genuine(name))
    stepped = context.infer(golden_of(name).inputs)
    for got, want, npu, attr in zip(results, expected, stepped, context.outputs):
        if form == "float":
            assert near(got, want)
        else:
            assert attr.quant is not None
            assert np.abs(got - npu).max() < 2.001 * attr.quant.scale
