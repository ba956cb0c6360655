"""The manual's whole table: the simulator and a board against one reference."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_insight import Kind, judge
from rknnlite_insight.comparison import Comparison
from rknnlite_insight.dumps import Dump, DumpWriter

import rknnlite
from rknnlite.errors import DeviceUnavailable, ParamInvalid, RknnError
from rknnlite.spi import Context
from tests.support.corpus import genuine, golden_of, open_cpu
from tests.support.onnx_twin import write_twin

TWO = "two_images.rk3588.i8"
MODEL, INPUTS = genuine(TWO), golden_of(TWO).inputs
SPOILED = "/left/left.2/Relu_output_0"


def stand_in(
    spoil: str = "", alone: bool = True, refusal: Exception | None = None, vendor: bool = False
) -> Context:
    """A context of the CPU reference that plays a board: one tensor is wrong, its dumps are not all there or the vendor's."""
    context = open_cpu(MODEL)
    own = type(context)

    class Board(own):  # type: ignore[misc, valid-type]
        backend_name = "board"

        def dump(self, directory: str | os.PathLike[str], golden: Dump | None = None) -> Dump:
            if refusal is not None:
                raise refusal
            if golden is not None and not alone:
                raise ParamInvalid("the board computes on its own values")
            found = spoilt(super().dump(Path(directory) / "own", golden), spoil, Path(directory) / "spoilt")
            return as_the_vendors(found, Path(directory)) if vendor else found

    context.__class__ = Board
    return context


def spoilt(dump: Dump, name: str, folder: Path) -> Dump:
    """The same dump with one tensor doubled."""
    if not name:
        return dump
    writer = DumpWriter(folder, **dump.info)
    for entry in dump.tensors:
        value = dump.value(entry.name) * np.float32(2 if entry.name == name else 1)
        writer.add(entry.name, value, dtype=entry.dtype, op=entry.op, role=entry.role, item=entry.item)
    return writer.close()


def as_the_vendors(dump: Dump, folder: Path) -> Dump:
    """The same tensors in files as the vendor's runtime names them."""
    folder.mkdir(exist_ok=True)
    for number, entry in enumerate(dump.tensors, 1):
        value = dump.value(entry.name)
        shape, name = "_".join(map(str, value.shape)), re.sub(r"[^A-Za-z0-9]", "_", entry.name)
        np.save(folder / f"{number:03}_{entry.op}_{name}_shape_{shape}_float.npy", value)
    return Dump.read(folder)


@pytest.fixture
def twin(tmp_path: Path) -> Path:
    return write_twin(MODEL, tmp_path / "twin.onnx")


def analysed(board: Any, twin: Path, mode: str = "single") -> Comparison:
    with board if isinstance(board, Context) else open_cpu(MODEL):
        return rknnlite.compare(MODEL, twin, INPUTS, mode, board=board, backend="cpu")


def test_a_board_that_computes_as_the_simulator_does_errs_as_it_does(twin: Path) -> None:
    found = analysed(stand_in(), twin)
    assert found.board is not None and found.board.single == "single" and not found.board.notes
    assert all(t.runtime_entire == t.entire and t.runtime_single == t.single for t in found.tensors)
    assert not found.board.differing and not found.board.unseen
    assert "the board has the simulator's values in 7 of 7 tensors" in str(found)
    there = found.on_board
    assert there is not None and judge(there).headline == judge(found).headline


def test_a_layer_that_only_the_board_computes_wrong(twin: Path) -> None:
    found = analysed(stand_in(SPOILED), twin)
    wrong = found[SPOILED]
    assert (
        wrong.entire.cosine > 0.999 and wrong.runtime_entire is not None and wrong.runtime_single is not None
    )
    assert wrong.runtime_entire.euclidean > 10 * wrong.entire.euclidean
    assert wrong.runtime_single.euclidean > 10 * wrong.single.euclidean  # type: ignore[union-attr]
    others = [tensor for tensor in found.tensors if tensor.name != SPOILED]
    assert all(tensor.runtime_entire == tensor.entire for tensor in others)
    assert found.board is not None and found.board.differing == [SPOILED]
    assert f"1 with other values on the board: {SPOILED}" in str(found)
    there = found.on_board
    assert there is not None and [layer.tensor.name for layer in judge(there).born] == [SPOILED]
    assert judge(found).kind is Kind.NOISE, "the simulator is not blamed for it"


def test_the_table_is_the_manuals(twin: Path) -> None:
    lines = str(analysed(stand_in(SPOILED), twin)).splitlines()
    head = next(number for number, line in enumerate(lines) if "simulator_error" in line)
    assert lines[head].split() == ["simulator_error", "runtime_error"]
    assert lines[head + 1].split() == ["layer_name", "entire", "single", "entire", "single"]
    starts = [found.start() for found in re.finditer("entire", lines[head + 1])]
    assert [lines[head].index(word) for word in ("simulator_error", "runtime_error")] == starts
    assert lines[head + 2].split() == ["cos", "|", "euc"] * 4
    cells = re.findall(r"(-?\d\.\d{5}) \| (\S+)", next(line for line in lines if SPOILED in line))
    assert len(cells) == 4 and cells[0] != cells[2] and cells[1] != cells[3]


def test_a_board_that_takes_no_values_is_judged_by_the_simulator_on_its_own(twin: Path) -> None:
    found = analysed(stand_in(SPOILED, alone=False), twin)
    assert found.board is not None and found.board.single == "single_sim"
    assert "the board computes on its own values" in found.board.notes[0]
    assert "single_sim" in str(found).splitlines()[4] and found.board.notes[0] in str(found)
    off = [t.name for t in found.tensors if t.runtime_single is not None and t.runtime_single.euclidean > 0]
    assert SPOILED in off and "in0" not in off
    assert all(t.runtime_single is not None for t in found.tensors)


def test_a_board_that_shows_its_outputs_alone_says_so(twin: Path) -> None:
    found = analysed(stand_in(refusal=RknnError("backend board cannot dump tensors")), twin)
    shown = {tensor.name for tensor in found.tensors if tensor.runtime_entire}
    assert shown == {"out0", "out1"} and not any(tensor.runtime_single for tensor in found.tensors)
    assert found.board is not None and set(found.board.unseen) == {t.name for t in found.tensors} - shown
    text = str(found)
    assert text.count("not dumped") == 2 * len(found.board.unseen) + len(shown) + 1, (
        "no blank cell says nothing"
    )
    assert "only the outputs of the board are judged: backend board cannot dump tensors" in text
    assert "no layer of the board was judged alone" in text
    there = found.on_board
    assert there is not None and {tensor.name for tensor in there.tensors} == shown


@pytest.mark.parametrize("error", [DeviceUnavailable("board:8001 does not answer"), ParamInvalid("no")])
def test_a_board_that_is_gone_is_an_error(error: Exception, twin: Path) -> None:
    with pytest.raises(type(error), match=str(error)):
        analysed(stand_in(refusal=error), twin)


def test_a_folder_that_the_vendors_runtime_wrote(twin: Path, tmp_path: Path) -> None:
    folder = tmp_path / "board"
    with stand_in(SPOILED) as context:
        context.set_inputs(rknnlite.spi.inputs.collect(INPUTS, context.inputs, None, False))
        as_the_vendors(context.dump(tmp_path / "own"), folder)
    found = analysed(folder, twin)
    assert found.board is not None and found.board.single == "single_sim"
    assert found.board.differing == [SPOILED] and not found.board.unseen
    assert found[SPOILED].runtime_entire != found[SPOILED].entire
    with pytest.raises(ParamInvalid, match="was dumped on a board already"):
        rknnlite.compare(folder, MODEL, INPUTS, board=folder, backend="cpu")


def test_a_board_whose_runtime_dumps_as_the_vendors_does(twin: Path) -> None:
    found = analysed(stand_in(SPOILED, alone=False, vendor=True), twin)
    assert found.board is not None and found.board.single == "single_sim"
    assert found.board.differing == [SPOILED] and not found.board.unseen
    whole = analysed(stand_in(SPOILED, alone=False), twin)
    assert [t.runtime_entire for t in found.tensors] == [t.runtime_entire for t in whole.tensors]


def test_a_whole_run_alone_has_one_column_each(twin: Path) -> None:
    found = analysed(stand_in(SPOILED), twin, "entire")
    assert [(group.head, [head for head, _ in group.columns]) for group in found.groups()] == [
        ("simulator_error", ["entire"]), ("runtime_error", ["entire"])
    ]  # fmt: skip
    assert found[SPOILED].runtime_single is None
