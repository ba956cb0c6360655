"""examples/onnx_backend, installed by hand: an ONNX file runs wherever a model does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("onnxruntime")

from tests.support.backend_packages import installed, run_there
from tests.support.corpus import EXAMPLES

PROGRAM = """
import numpy as np, rknnlite
from rknnlite.api import RKNNLite

small, wide = (np.full((1, height, 6, 3), height, np.uint8) for height in (4, 9))
weights = np.array([[1, 2, 3]], np.float32)
with rknnlite.open("tests/weighted.onnx", core_mask=rknnlite.CoreMask.CORE_0_1) as context:
    print("open", context.backend_name, context.platform, context.soc.name, context.infer(small, weights)[0].tolist())
with rknnlite.Pool("tests/weighted.onnx", workers=2, cores=(1, 2)) as pool:
    print("pool", [scores.tolist() for scores, _ in pool.map([[small, weights], [wide, weights]])])
rknn = RKNNLite()
assert rknn.load_rknn("tests/weighted.onnx") == 0
assert rknn.init_runtime(core_mask=RKNNLite.NPU_CORE_0_1_2) == 0
scores, doubled = rknn.inference(inputs=[wide.transpose(0, 3, 1, 2), weights], data_format=["nchw", None])
print("face", scores.tolist(), doubled.shape)
rknn.release()
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package installed."""
    return installed("onnx_backend", tmp_path_factory.mktemp("site"))


@pytest.mark.slow
def test_its_own_tests_pass(site: Path) -> None:
    assert "7 passed" in run_there(site, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")


def test_open_pool_and_the_vendors_class(site: Path) -> None:
    assert run_there(site, "-c", PROGRAM).splitlines() == [
        "open ort onnxruntime_onnx rk3588 [[4.0, 8.0, 12.0]]",
        "pool [[[4.0, 8.0, 12.0]], [[9.0, 18.0, 27.0]]]",
        "face [[9.0, 18.0, 27.0]] (1, 3, 9, 6)",
    ]


def test_the_command_prints_what_the_readme_says(site: Path) -> None:
    printed = run_there(site, "-m", "rknnlite", "run", "tests/weighted.onnx")
    readme = (EXAMPLES / "onnx_backend" / "README.md").read_text("utf-8")
    assert (
        printed
        == re.sub("^    ", "", readme.partition("made-up data\n")[2], flags=re.MULTILINE).partition("\n\n")[0]
        + "\n"
    )


@pytest.mark.slow
def test_the_server_announces_its_platform_and_a_name_without_suffix(site: Path) -> None:
    pytest.importorskip("starlette")
    program = """
import json, shutil, numpy as np
from tests.server.conftest import running
from rknnlite_server.settings import ServerSettings
shutil.copy("tests/weighted.onnx", "other.onnx")
settings = ServerSettings(networks=("tests/weighted.onnx",), repository=".", workers=1)
with running(settings) as served:
    metadata = served.http.get("/v2/models/weighted").json()
    config = served.http.get("/v2/models/other/config").json()
    body = {"inputs": [
        {"name": "weights", "datatype": "FP32", "shape": [1, 3], "data": [1, 2, 3]},
        {"name": "picture", "datatype": "UINT8", "shape": [1, 2, 2, 3], "data": [5] * 12},
    ]}
    answer = served.http.post("/v2/models/weighted/infer", json=body).json()
print(json.dumps([metadata, config, answer["outputs"][0]["data"]]))
"""
    metadata, config, scores = json.loads(run_there(site, "-c", program))
    assert (metadata["name"], metadata["platform"]) == ("weighted", "onnxruntime_onnx")
    assert [entry["shape"] for entry in metadata["inputs"]] == [[-1, -1, -1, 3], [-1, 3]]
    assert (config["name"], config["platform"], config["backend"]) == ("other", "onnxruntime_onnx", "ort")
    assert scores == [5, 10, 15]
