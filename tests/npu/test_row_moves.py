"""Rows that the runtime itself moves around recurrent nodes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import rknnlite_npu.program
from rknnlite_npu import opened_model, unwritten_tensors
from rknnlite_npu.backend import MachineBackend
from rknnlite_npu.command_words import CNA, CommandWord
from rknnlite_npu.program import NpuProgram
from rknnlite_npu.row_moves import row_moves

from rknnlite.errors import ModelUnsupported
from rknnlite.formats import ModelFile
from rknnlite.spi import OpenOptions
from tests.support.corpus import genuine, goldens

from .plans import planned

LSTM, GRU = "lstm.rk3588.fp16", "gru.rk3568.fp16"


def test_inputs_are_copied_in_whole_atoms_with_the_first_states_behind_them() -> None:
    program = planned(LSTM).program
    [move] = row_moves(program)
    names = [program.tensors[i].name for i in (*move.sources, move.target)]
    assert names == ["in0", "/cell/Expand_output_0", "/cell/Expand_1_output_0", "in0_exSecondary1"]
    assert move.before
    x, h, c = (np.arange(n, dtype="<f2") for n in (40, 16, 16))
    memory = dict(zip((*move.sources, move.target), [a.view(np.uint8) for a in (x, h, -c)]))
    memory[move.target] = np.full(160, 9, np.uint8)
    move.run(lambda tensor: memory[tensor])
    rows = memory[move.target].view("<f2")
    assert rows[:48].reshape(2, 24)[:, :20].tolist() == x.reshape(2, 20).tolist()
    assert not rows[:48].reshape(2, 24)[:, 20:].any()
    assert rows[48:].tolist() == [*h.tolist(), *(-c).tolist()]


def test_outputs_are_taken_out_of_whole_atoms() -> None:
    program = planned(GRU).program
    [move] = row_moves(program)
    assert not move.before
    rows = np.arange(32, dtype="<f2")
    memory = {move.sources[0]: rows.view(np.uint8), move.target: np.zeros(52, np.uint8)}
    move.run(lambda tensor: memory[tensor])
    assert memory[move.target].view("<f2").tolist() == rows.reshape(2, 16)[:, :13].reshape(-1).tolist()


@pytest.mark.parametrize(
    ("name", "doubt"), [(LSTM, "into in0_exSecondary1, before"), (GRU, "into /cell/GRU_output_0, behind")]
)
def test_a_plan_says_that_nobody_recorded_it(name: str, doubt: str) -> None:
    assert any(doubt in told for told in planned(name).doubts)


def test_a_copy_of_another_size_is_none_that_is_known() -> None:
    program = planned(LSTM).program
    tensors = tuple(replace(t, size=161) if t.name == "in0_exSecondary1" else t for t in program.tensors)
    other = replace(program, tensors=tensors)
    assert row_moves(other) == ()
    assert unwritten_tensors.unwritten_tensors(other) == ["in0_exSecondary1"]
    nodes = tuple(replace(node, inputs=(-1, *node.inputs[1:])) for node in program.nodes)
    assert row_moves(replace(program, nodes=nodes)) == ()


def test_what_nobody_writes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened_model, "unwritten_tensors", lambda program: ["weights"])
    with pytest.raises(ModelUnsupported, match="nothing writes weights"):
        MachineBackend().open(ModelFile(genuine(LSTM)), OpenOptions())


def test_only_the_place_of_the_first_state_is_wrong_in_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read from behind the input, where it lies, the numbers are the simulator's."""
    read = rknnlite_npu.program._program

    def corrected(*args: object, **options: object) -> NpuProgram:
        program = read(*args, **options)  # type: ignore[arg-type]
        found = []
        for relocation in program.relocations:
            if program.tensors[relocation.tensor].name == "in0_exSecondary1":
                [task] = [t for t in program.tasks if t.first <= relocation.word < t.first + t.amount]
                words = [CommandWord.of(w) for w in program.words[task.first : task.first + task.amount]]
                size = [word.value for word in words if (word.unit, word.register) == (CNA, 0x1020)]
                if not size:
                    relocation = relocation._replace(offset=128)
                elif size == [0x10001]:
                    relocation = relocation._replace(offset=96)
            found.append(relocation)
        return replace(program, relocations=tuple(found))

    monkeypatch.setattr(rknnlite_npu.program, "_program", corrected)
    golden = goldens(genuine(LSTM).with_suffix(".npz"))[0]
    [got] = MachineBackend().open(ModelFile(genuine(LSTM)), OpenOptions()).infer(list(golden.inputs))
    assert np.abs(got - golden.outputs[0]).max() <= 3e-3 * np.abs(golden.outputs[0]).max()
