"""Folders that the vendor's runtime wrote on a board, judged by a run of the same network."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from rknnlite_insight.dumps import Dump

import rknnlite
from rknnlite.cli import main
from rknnlite.errors import ParamInvalid
from tests.support.corpus import genuine, golden_of, open_cpu

TWO = "two_images.rk3588.i8"
MODEL, INPUTS = genuine(TWO), golden_of(TWO).inputs


@pytest.fixture
def board(tmp_path: Path) -> Path:
    """What a board would write, with one layer (the last but one) doubled."""
    folder = tmp_path / "board"
    folder.mkdir()
    with open_cpu(MODEL) as context:
        context.set_inputs(rknnlite.spi.inputs.collect(INPUTS, context.inputs, None, False))
        dump = context.dump(tmp_path / "own")
    spoiled = dump.names[-2]
    for number, entry in enumerate(dump.tensors, 1):
        value = dump.value(entry.name).astype(np.float32) * (2 if entry.name == spoiled else 1)
        shape, name = "_".join(map(str, value.shape)), re.sub(r"[^A-Za-z0-9]", "_", entry.name)
        np.save(folder / f"{number:03}_{entry.op}_{name}_shape_{shape}_float.npy", value)
        np.save(folder / f"{number:03}_{entry.op}_{name}_shape_{shape}_int8.npy", value.astype(np.int8))
    return folder


def test_names_of_files_tell_what_they_hold(tmp_path: Path) -> None:
    known = np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2)
    for name in ("025_ConvClip_385_shape_1_2_2_2_float.npy", "003_Add_a_b_c_shape_1_2_2_2_float.npy"):
        np.save(tmp_path / name, known)
    (tmp_path / "notes.txt").write_text("no tensor")
    dump = Dump.read(tmp_path)
    assert dump.names == ["a_b_c", "385"] and dump.of_board
    entry = dump.entry("385")
    assert (entry.op, entry.shape, entry.dtype) == ("ConvClip", (1, 2, 2, 2), "float")
    assert np.array_equal(dump.value("385"), known)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ParamInvalid, match="is no folder of dumps"):
        Dump.read(tmp_path / "empty")


def test_the_table_of_the_manual(board: Path) -> None:
    found = rknnlite.compare(board, MODEL, INPUTS, "single", backend="cpu")
    lines = str(found).splitlines()
    assert lines[2].strip() == "runtime_error" and lines[3].split() == ["layer_name", "entire", "single"]
    assert not found.unmatched and found.runtime
    errors = {tensor.name: tensor for tensor in found.tensors}
    wrong = [name for name, tensor in errors.items() if tensor.entire.euclidean > 0]
    assert len(wrong) == 1, "the spoiled layer, and no other"
    assert errors[wrong[0]].single is not None and errors[wrong[0]].single.euclidean > 0
    assert found.outputs, "roles are those of the reference"


def test_on_the_command_line(board: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = []
    for number, array in enumerate(INPUTS):
        files.append(str(tmp_path / f"{number}.npy"))
        np.save(files[-1], array)
    assert main(["compare", str(board), str(MODEL), *files, "--backend", "cpu"]) == 0
    assert "runtime_error" in capsys.readouterr().out
