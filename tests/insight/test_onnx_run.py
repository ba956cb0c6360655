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
