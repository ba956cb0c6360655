"""Source networks that cannot be run are refused with what is wrong and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from rknnlite_insight.onnx_run import dump_onnx

import rknnlite
from rknnlite.errors import ModelInvalid
from tests.support.corpus import genuine

FEEDS = {"x": np.zeros((1, 3, 12, 10), np.float32)}


@pytest.fixture
def network(tmp_path: Path) -> Any:
    return rknnlite.to_onnx(genuine("per_tensor.rk3588.i8"), "float")


def refusal(data: bytes, folder: Path) -> str:
    path = folder / "network.onnx"
    path.write_bytes(data)
    with pytest.raises(ModelInvalid, match=r"export it again, or ask onnx.checker.check_model") as caught:
        dump_onnx(path, FEEDS, folder / "dump")
    return str(caught.value)


def test_a_good_one(network: Any, tmp_path: Path) -> None:
    path = tmp_path / "network.onnx"
    path.write_bytes(network.SerializeToString())
    assert dump_onnx(path, FEEDS, tmp_path / "dump").names


def test_names_that_are_no_utf8(network: Any, tmp_path: Path) -> None:
    """protobuf gives them as bytes, which nothing else takes."""
    name = network.graph.node[0].output[0].encode()
    data = network.SerializeToString().replace(name, b"\xef" + name[1:])
    assert "is not UTF-8" in refusal(data, tmp_path)


def test_nodes_that_do_not_fit(network: Any, tmp_path: Path) -> None:
    network.graph.node[0].input[0] = "no\x1bwhere"
    text = refusal(network.SerializeToString(), tmp_path)
    assert "where" in text and "\x1b" not in text
    assert refusal(b"\x08\x08RKNN", tmp_path)


def test_what_nothing_but_a_relu_reads_is_judged_behind_it(tmp_path: Path) -> None:
    """Below zero nobody sees it; a tensor with another reader, or an output, stays as it is."""
    from onnx import TensorProto, helper

    def network(negative: float) -> Path:
        nodes = [
            helper.make_node("Mul", ["x", "k"], ["hidden"]),
            helper.make_node("Relu", ["hidden"], ["seen"]),
            helper.make_node("Neg", ["seen"], ["both"]),
            helper.make_node("Relu", ["both"], ["y"]),
            helper.make_node("Abs", ["both"], ["z"]),
        ]
        ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "yz"]
        start = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])]
        k = helper.make_tensor("k", TensorProto.FLOAT, [2], [1.0, negative])
        graph = helper.make_graph(nodes, "g", start, ends, [k])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
        model.ir_version = 8
        path = tmp_path / f"{negative}.onnx"
        path.write_bytes(model.SerializeToString())
        return path

    feeds = {"x": np.ones(2, np.float32)}
    dump = dump_onnx(network(-1.0), feeds, tmp_path / "dump")
    assert dump.info["before_relu"] == ["hidden"]
    assert dump.names == ["x", "hidden", "seen", "both", "y", "z"]  # in order of computation
    assert dump.value("hidden").tolist() == [1, 0] and dump.value("both").tolist() == [-1, 0]
    found = rknnlite.compare(network(-1.0), network(-5.0), reference_inputs=feeds)
    assert all(tensor.entire.euclidean == 0 for tensor in found.tensors)
