"""tools/arm64/engines.py: what an engine does on the processor at hand."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
from rknnlite_cpu.engines.with_onnxruntime import OnnxRuntime

from tests.support.corpus import genuine
from tools.arm64 import engines

DENSE = str(genuine("dense.rk3588.i8"))


def test_the_form_the_nodes_and_equal_bytes_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert engines.main([DENSE]) == 0
    head, line, sums = capsys.readouterr().out.splitlines()
    assert head.endswith(f"form {OnnxRuntime().form.value}")
    assert line.startswith("identical dense.rk3588.i8: 59 of 59 the same, engine has 8 of 8 nodes, ")
    assert sums == "1 identical"


def test_a_node_that_differs_is_named_and_left_to_numpy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rknnlite_cpu.engines.prover.agrees", lambda graph, node, *_: "Relu" not in node.op)
    assert engines.main([DENSE]) == 0
    out = capsys.readouterr().out
    assert "identical" in out and "engine has 8 of 8" not in out
    assert "is not for the engine onnxruntime: other bytes than those of the numpy kernel" in out


def test_an_output_that_is_too_far_away_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(*_: object) -> None:
        np.testing.assert_array_equal([1], [2])

    monkeypatch.setattr(engines, "check", wrong)
    assert engines.main([DENSE]) == 1
    assert capsys.readouterr().out.endswith("1 OUTSIDE\n")
