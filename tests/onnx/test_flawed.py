"""Files whose commands are not those of their weights, written as ONNX from the weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import rknnlite
from rknnlite.errors import ModelUnsupported
from tests.onnx.support import checked, run
from tests.support.swept import FLAWED, arrays, flawed


@pytest.mark.parametrize("form", ["float", "qdq", "fp16"])
@pytest.mark.parametrize(
    ("case", "target"),
    [("long_kernel", "rk3588.i8"), ("long_kernel", "rk3576.i8"), ("long_deconv", "rk3588.i8")],
)
def test_weights_are_rescued(case: str, target: str, form: str, tmp_path: Path) -> None:
    network = checked(rknnlite.to_onnx(flawed(case, target, tmp_path), form))
    archive = FLAWED / f"{case}.tar.xz"
    (entry,) = network.graph.input
    (found,) = run(network, {entry.name: arrays(archive, "in")[0]})
    (wanted,) = arrays(archive, f"{target}.out")
    assert np.corrcoef(found.ravel(), wanted.ravel())[0, 1] > 0.9995


@pytest.mark.parametrize("form", ["exact", "exact-int8"])
def test_numbers_of_the_npu_are_refused(form: str, tmp_path: Path) -> None:
    with pytest.raises(ModelUnsupported, match=r"kernel of 1x23, its weight is 1x87.*fidelity='float'"):
        rknnlite.to_onnx(flawed("long_kernel", "rk3588.i8", tmp_path), form)
