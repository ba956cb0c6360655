"""Experts that are not chosen are not read: pages of the mapped weights that are resident after a short chat."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from rknnlite_llm import export_llm

from benchmarks.llm_experts import make_model
from tests.support.corpus import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="asks /proc what is resident"),
]


@pytest.mark.parametrize("weights", ["f16", "w8", "w4"])
def test_most_of_a_mixture_stays_on_the_disk(weights: str, tmp_path: Path) -> None:
    (tmp_path / "hf").mkdir()
    make_model(tmp_path / "hf", experts=48, layers=2)
    package = export_llm(tmp_path / "hf", tmp_path / "x", weights)
    for verify in ("verify", "mapped"):
        run = [sys.executable, "benchmarks/llm_experts.py", "--chat", str(package.model), verify]
        found = json.loads(subprocess.run(run, check=True, capture_output=True, text=True, cwd=ROOT).stdout)
        assert found["opened"] < 0.05 * found["size"] + (4 << 20)
        assert found["said"] < 0.5 * found["size"], verify
