"""A model with custom operators against its ONNX network: the operators compute on both sides."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rknnlite
from rknnlite._faces.toolkit import toolkit_names
from rknnlite.abi import include_dir
from rknnlite.errors import BackendUnavailable, ModelInvalid
from rknnlite.spi import CustomOpFailed
from tests.custom_ops.models import DUAL, FullDual, PlainDual, dual_golden
from tests.support.corpus import EXAMPLES

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
CUSTOM_OP = EXAMPLES / "custom_op"
INPUTS = dual_golden().inputs


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the model of the example was converted from."""
    path = tmp_path_factory.mktemp("onnx") / "dual.onnx"
    sys.path.insert(0, str(CUSTOM_OP))
    try:
        with toolkit_names():
            runpy.run_path(str(CUSTOM_OP / "convert.py"), run_name="convert")["make_onnx"](path)
    finally:
        sys.path.remove(str(CUSTOM_OP))
    return path


def compiled(folder: Path) -> Path:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler is installed")
    library, source = folder / "librkcst_dual.so", CUSTOM_OP / "librkcst_dual_residual.c"
    command = ["cc", "-shared", "-fPIC", f"-I{include_dir()}", "-o", str(library), str(source)]
    subprocess.run(command, check=True)
    return library


@pytest.mark.parametrize("kind", ["plain", "full", "compiled"])
@pytest.mark.parametrize("mode", ["entire", "single"])
def test_every_tensor_is_compared(kind: str, mode: str, network: Path, tmp_path: Path) -> None:
    op: Any = {"plain": PlainDual, "full": FullDual}[kind]() if kind != "compiled" else compiled(tmp_path)
    found = rknnlite.compare(DUAL, network, INPUTS, mode, backend="cpu", custom_ops=[op])
    assert {tensor.name for tensor in found.tensors} >= {"l", "r", "lr", "difference", "features"}
    assert {tensor.name for tensor in found.outputs} == {"features", "difference"}
    assert all(tensor.entire.cosine > 0.999 for tensor in found.tensors), str(found)
    assert not found.missing


def test_the_network_alone_equals_onnxs_own_evaluator(network: Path, tmp_path: Path) -> None:
    """Float against float: nothing of the pieces is lost."""
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import OpRun
    from rknnlite_insight.onnx_run import dump_onnx

    from rknnlite.spi.custom_op import as_custom_op

    class cstDualResidual(OpRun):
        op_domain = ""

        def _run(self, x: Any, y: Any, alpha: float) -> Any:
            return x * np.float32(alpha) - y, y * np.float32(alpha) - x

    rng = np.random.default_rng(0)
    feeds = {name: rng.normal(size=(1, 3, 32, 32)).astype(np.float32) for name in ("left", "right")}
    dump = dump_onnx(network, feeds, tmp_path / "dump", [as_custom_op(PlainDual())])
    expected = ReferenceEvaluator(onnx.load(str(network)), new_ops=[cstDualResidual]).run(None, feeds)
    for name, value in zip(("features", "difference"), expected):
        assert np.allclose(dump.value(name), value, atol=1e-4)


def test_without_the_operator_the_remedy_is_named(network: Path) -> None:
    with pytest.raises(
        (ModelInvalid, BackendUnavailable), match=r"does not define cstDualResidual.*--custom-op"
    ):
        rknnlite.compare(network, network, reference_inputs={"left": INPUTS[0], "right": INPUTS[1]})


def test_an_operator_that_fails_is_named(network: Path, tmp_path: Path) -> None:
    class Bad(PlainDual):
        def compute(self, node: Any, inputs: Any) -> Any:
            raise OSError("no table")

    feeds = {name: np.zeros((1, 3, 32, 32), np.float32) for name in ("left", "right")}
    with pytest.raises(
        CustomOpFailed, match=r'dual\.onnx: custom operator cstDualResidual .* "dual" .*OSError: no table'
    ):
        rknnlite.compare(network, network, reference_inputs=feeds, custom_ops=[Bad()])
