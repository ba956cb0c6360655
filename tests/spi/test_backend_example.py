"""examples/backend_package, installed by hand: through an entry point it is a backend like ours, for every face."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.backend_packages import installed, run_there
from tests.support.corpus import EXAMPLES

MODEL = EXAMPLES / "backend_package" / "tests" / "picture_for_RK3588.rknn"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package installed."""
    return installed("backend_package", tmp_path_factory.mktemp("site"))


@pytest.mark.slow
def test_its_own_tests_pass(site: Path) -> None:
    assert "7 passed" in run_there(site, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")


def test_a_model_is_opened_on_it_when_it_is_named(site: Path) -> None:
    program = f"""
import numpy as np, rknnlite
image = np.full((1, 24, 24, 3), 3, np.uint8)
with rknnlite.open({str(MODEL)!r}, backend="mean") as context:
    print(context.backend_name, context.infer(image)[0].mean())
with rknnlite.open({str(MODEL)!r}) as context:
    print(context.backend_name == "mean")  # only when it is asked for: priority -1
"""
    assert run_there(site, "-c", program).split() == ["mean", "3.0", "False"]


def test_a_program_for_the_vendors_class_runs_on_it(site: Path) -> None:
    program = f"""
import numpy as np
from rknnlite.api import RKNNLite
rknn = RKNNLite()
assert rknn.load_rknn({str(MODEL)!r}) == 0
assert rknn.init_runtime(core_mask=RKNNLite.NPU_CORE_0_1) == 0
(scores,) = rknn.inference(inputs=[np.full((1, 24, 24, 3), 3, np.uint8)])
print(scores.shape, scores.mean())
rknn.release()
"""
    assert run_there(site, "-c", program, RKNNLITE_BACKEND="mean") == "(1, 16, 12, 12) 3.0\n"


def test_the_command_lists_it(site: Path) -> None:
    found = {
        entry["backend"]: entry
        for entry in json.loads(run_there(site, "-m", "rknnlite", "devices", "--json"))
    }
    assert {"cpu", "mean"} <= set(found)
    mean = found["mean"]
    assert (mean["available"], mean["priority"], mean["devices"]) == (True, -1, ["cpu"])
    assert "mean of the inputs" in run_there(site, "-m", "rknnlite", "devices")
