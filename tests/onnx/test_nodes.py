"""Every node of the genuine files, lowered alone and fed with the operands that the numpy kernels had."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="pip install rknnlite[onnx]")
pytest.importorskip("onnxruntime", reason="pip install rknnlite[onnx]")

from rknnlite.errors import RknnError
from rknnlite.formats import ModelFile
from rknnlite.graph import Graph
from rknnlite.spi.lowering import Form
from tests.cpu.test_swept import models
from tests.support.corpus import DATA, EXAMPLES
from tests.support.lowered import accepted, judged_alone, random_inputs, recorded
from tests.support.swept import members

FILES = sorted([*DATA.glob("*.rknn"), *(EXAMPLES / "resnet18").rglob("*.rknn")])
FEW = 4
"""One of so many files is looked at in both forms."""


def check(graph: Graph, form: Form) -> None:
    wrong, tried = [], 0
    for node, operands, results in recorded(graph, random_inputs(graph)):
        for verdict in judged_alone(graph, node, operands, results, form):
            wanted = results[verdict.tensor.index]
            finite = np.abs(wanted[np.isfinite(wanted)].astype(np.float64))
            tried += 1
            if not accepted(verdict, float(finite.max(initial=0))):
                wrong.append(str(verdict))
    assert tried and not wrong, "\n".join(wrong)


def checked_file(source: Path | bytes, form: Form) -> None:
    try:
        graph = ModelFile(source).model.graph()
        recorded(graph, random_inputs(graph))
    except RknnError as error:
        pytest.skip(f"the CPU reference refuses it: {error}")
    check(graph, form)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_exact(path: Path) -> None:
    checked_file(path, Form.EXACT)


@pytest.mark.parametrize("path", FILES[::FEW], ids=lambda path: path.stem)
def test_exact_in_bytes(path: Path) -> None:
    checked_file(path, Form.EXACT_INT8)


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_all_of_them_in_bytes(path: Path) -> None:
    checked_file(path, Form.EXACT_INT8)


@pytest.mark.parametrize(("archive", "target"), models())
def test_swept(archive: Path, target: str) -> None:
    checked_file(members(archive)[f"{target}.rknn"], Form.EXACT)
