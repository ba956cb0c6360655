"""examples/rknn1: an old program with an old file, made by the example's own script."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import rknnlite
from rknnlite.formats import ModelFile
from tests.support.corpus import EXAMPLES, ROOT

FOLDER = EXAMPLES / "rknn1"
MODEL = FOLDER / "digits.rknn"


def test_it_names_the_digit() -> None:
    pytest.importorskip("cv2")
    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "plugins")]), "RKNNLITE_BACKEND": "cpu",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, str(FOLDER / "test.py")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:2] == ["digits", "-----TOP 5-----"] and len(lines) == 7
    assert lines[2].startswith("[7] score:0.99") and lines[2].endswith('class:"seven"')
    told = (FOLDER / "README.md").read_text()
    assert all(f"    {line}" in told for line in lines)
    assert "dimensions" not in done.stderr  # no word about the batch that is not there


def test_its_file_is_small_and_of_the_first_toolkit() -> None:
    assert MODEL.stat().st_size < 60_000
    model = ModelFile(MODEL).model
    assert model.generation == "rknpu1" and not model.board_only
    assert (model.container, model.toolkit_version, model.platforms) == (1, "1.7.0", ("rv1126", "rv1109"))
    assert model.inputs[0].reorder == (2, 1, 0)


def test_its_numbers_are_the_simulator_s() -> None:
    """Stored elements; the chip maker's simulator of RV1126 gave these logits for these."""
    stored = np.random.default_rng(0).integers(0, 256, (1, 3, 32, 32)).astype(np.uint8)
    with rknnlite.open(MODEL, backend="cpu") as context:
        (logits,) = context.infer([stored], pass_through=True)
        quant = context.outputs[0].quant
    assert quant is not None
    assert (np.rint(logits / quant.scale) + quant.zero_point).ravel().tolist() == SIMULATED


SIMULATED = [145, 130, 152, 165, 156, 171, 126, 154, 157, 180]
