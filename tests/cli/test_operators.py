"""Operators on the command line: files made for the PC toolkit, and post-process plugins."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rknnlite
from rknnlite.spi import OpHost, PostProcess, Probe
from rknnlite.tensor import DType, Layout, TensorAttr
from tests.support.corpus import EXAMPLES, ROOT

from .conftest import RESNET, Call

DUAL = EXAMPLES / "custom_op" / "dual_for_RK3588.rknn"
TOOLKIT = """
import numpy as np
from rknn.api import RKNN
from rknn.api.custom_op import get_node_attr

class cstDualResidual:
    op_type = 'cstDualResidual'
    def shape_infer(self, node, in_shapes, in_dtypes):
        return in_shapes.copy(), in_dtypes.copy()
    def compute(self, node, inputs):
        x, y = inputs
        alpha = get_node_attr(node, 'alpha')
        return [x * alpha - y, y * alpha - x]

if __name__ == '__main__':
    rknn = RKNN()
"""


@pytest.fixture
def toolkit(tmp_path: Path) -> Path:
    file = tmp_path / "custom.py"
    file.write_text(TOOLKIT)
    return file


@pytest.mark.parametrize("command", [("run", DUAL), ("compare", DUAL, DUAL), ("bench", DUAL, "--runs", 1)])
def test_a_file_made_for_the_toolkit(command: Any, toolkit: Path, call: Call) -> None:
    done = call(*command, "--backend", "cpu", "--custom-op", toolkit, "--json")
    assert done.code == 0, done.err
    assert not [name for name in sys.modules if name.split(".")[0] == "rknn"]


def test_an_installed_toolkit_is_there_again_afterwards(
    toolkit: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = type(sys)("rknn")
    monkeypatch.setitem(sys.modules, "rknn", theirs)
    assert call("run", DUAL, "--backend", "cpu", "--custom-op", toolkit, "--json").code == 0
    assert sys.modules["rknn"] is theirs


def test_a_file_that_converts_at_once_is_told_what_to_do(toolkit: Path, call: Call) -> None:
    toolkit.write_text(TOOLKIT.replace("if __name__ == '__main__':", "if True:"))
    done = call("run", DUAL, "--custom-op", toolkit)
    assert done.code == 2 and "if __name__ == '__main__'" in done.err
    assert not [name for name in sys.modules if name.split(".")[0] == "rknn"]


class Largest(PostProcess):
    """The largest element, twice."""

    def open(self, inputs: Any, outputs: Any) -> list[TensorAttr]:
        return [TensorAttr(0, "largest", (1, 2), DType.FLOAT32, Layout.UNDEFINED)]

    def compute(self, arrays: Any) -> list[np.ndarray]:
        return [np.full((1, 2), np.argmax(arrays[0]), np.float32)]

    def close(self) -> None:
        pass


class Host(OpHost):
    name = "largest"

    def probe(self) -> Probe:
        return Probe(True, "anywhere")

    def load_postprocess(self, path: Path, options: Any) -> PostProcess | None:
        return Largest() if path.suffix == ".post" else None


class Plugin:
    @rknnlite.hookimpl
    def rknnlite_register_op_hosts(self, register: Any) -> None:
        register(Host())


@pytest.fixture
def post(install: Any, tmp_path: Path) -> Path:
    install(largest=Plugin())
    file = tmp_path / "plugin.post"
    file.touch()
    return file


def test_a_post_process_plugin_behind_a_model(post: Path, call: Call) -> None:
    done = call("run", RESNET, "--backend", "cpu", "--postprocess", post, "--json")
    assert done.code == 0, done.err
    assert [(output["name"], output["shape"]) for output in done.data["outputs"]] == [("largest", [1, 2])]
    assert call("bench", RESNET, "--backend", "cpu", "--runs", 1, "--postprocess", post, "--json").code == 0


@pytest.mark.slow
def test_its_results_are_compared(post: Path, call: Call) -> None:
    done = call("compare", RESNET, RESNET, "--backend", "cpu", "--postprocess", post, "--json")
    assert done.code == 0, done.err
    (tensor,) = [tensor for tensor in done.data["tensors"] if tensor["name"] == "largest"]
    assert (tensor["op"], tensor["role"], tensor["entire"]["euclidean"]) == ("PostProcess", "output", 0)


def test_a_plugin_that_is_not_there(call: Call) -> None:
    done = call("run", RESNET, "--backend", "cpu", "--postprocess", "none.so")
    assert done.code == 2 and "none.so: no such file" in done.err


MINI = ROOT / "tests" / "graph" / "data" / "grid_sample.rv1106.i8.rknn"


def test_attributes_that_the_file_leaves_out(call: Call, tmp_path: Path) -> None:
    text = '{"GridSample": {"mode": "bilinear", "padding_mode": "border", "align_corners": 1}}'
    file = tmp_path / "attributes.json"
    file.write_text(text)
    for given in (text, file):
        assert call("run", MINI, "--backend", "cpu", "--attributes", given).code == 0
    for given in ('{"GridSample": ', tmp_path / "none.json"):
        done = call("run", MINI, "--backend", "cpu", "--attributes", given)
        assert done.code == 2 and "neither JSON nor a file of it" in done.err
