"""``rknnlite export-onnx`` and what it leaves behind."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from tests.cli.conftest import Call, call
from tests.support.corpus import EXAMPLES, genuine

from .support import checked, metadata, onnx

__all__ = ["call"]  # the fixture


def test_a_file_that_onnx_reads(call: Call, tmp_path: Path) -> None:
    out = tmp_path / "mean.onnx"
    done = call("export-onnx", genuine("mean_std.rk3588.i8"), out, "--form", "qdq", "--normalise", "--json")
    network = checked(onnx.load(out))
    assert done.code == 0 and done.data["not_written"] == [] and done.data["nodes"] == len(network.graph.node)
    assert done.data["bytes"] == out.stat().st_size
    assert metadata(network)["form"] == done.data["form"] == "qdq"
    assert network.graph.node[0].op_type == "Sub", "means are part of the graph"
    assert [path.name for path in tmp_path.iterdir()] == ["mean.onnx"]


def test_what_cannot_be_written_is_named(call: Call, tmp_path: Path) -> None:
    done = call("export-onnx", EXAMPLES / "custom_op" / "dual_for_RK3588.rknn", tmp_path / "dual.onnx")
    assert done.code == 0
    assert 'in the domain rknnlite: cstDualResidual "cstDualResidual:dual"' in done.out


def test_nothing_is_left_of_what_fails(call: Call, tmp_path: Path) -> None:
    assert call("export-onnx", genuine("removed.rk3588.i8"), tmp_path / "x.onnx").code == 3
    assert call("export-onnx", genuine("mean_std.rk3588.i8"), tmp_path / "none" / "x.onnx").code == 1
    assert call("export-onnx", genuine("mean_std.rk3588.i8"), tmp_path / "x.onnx", "--batch", "-2").code == 2
    assert not list(tmp_path.iterdir())
