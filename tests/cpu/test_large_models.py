"""Layers too large for the NPU's buffer, which the converter splits, and files above 100 MB."""

from __future__ import annotations

import resource
from pathlib import Path

import numpy as np
import pytest
from rknnlite_graph.read import read_graph

import rknnlite
from rknnlite.formats import ModelFile
from tests.support.corpus import open_cpu
from tests.support.flat import build
from tests.support.handmade import CONST, INPUT, OUTPUT, container, graph, node, root, tensor

DATA = Path(__file__).parent.parent / "graph" / "data"
FLOAT32, INT64 = 1, 7


@pytest.mark.parametrize("soc", ["rk3588", "rk3576"])
def test_parts_of_a_split_layer_add_up(soc: str) -> None:
    """12,544 inputs in five or three parts; the small last one has its accumulator shifted to fit the sum's scale."""
    path = DATA / f"split_inputs.{soc}.i8.rknn"
    nodes = [n for n in read_graph(ModelFile(path).model).nodes if n.op == "ConvAdd"]
    assert nodes[-1].stage is not None and nodes[-1].stage.second_scale < 1
    with np.load(path.with_suffix(".npz")) as golden, rknnlite.open(path, backend="cpu") as context:
        (found,) = context.infer(golden["in0"])
        assert np.array_equal(found, golden["out0"])


@pytest.mark.slow
def test_a_file_above_100_mb() -> None:
    """Read in place: the memory taken is the table once, not a multiple of the file."""
    rows, width = 300_000, 100
    table = np.arange(rows * width, dtype=np.float32).reshape(rows, width)
    tensors = [
        tensor("which", (4,), INPUT, INT64),
        tensor("y", (4, width), OUTPUT, FLOAT32),
        tensor("table", (rows, width), CONST, FLOAT32, s12=table.nbytes, s18=0),
    ]
    nodes = [node("InputOperator", [], [0]), node("Gather", [2, 0], [1]), node("OutputOperator", [1], [])]
    data = container(build(root([graph(tensors, nodes, [0], [1])], blobs=[table.tobytes()])))
    assert len(data) > 100e6
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with open_cpu(data) as context:
        (found,) = context.infer(np.array([0, 299_999, 7, 150_000], np.int64))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert np.array_equal(found, table[[0, 299_999, 7, 150_000]])
    assert grown < 1.5 * len(data)
