"""Loops of recurrent nodes: what they count from, and that they run as the words themselves say.

``data/lstm_loop`` is an LSTM(16, 16) over five steps, converted as the files of ``tests/data`` are.
"""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import pytest
from rknnlite_npu.backend import MachineBackend
from rknnlite_npu.command_words import PC, TAIL, CommandWord, values_of
from rknnlite_npu.loop_counters import LoopCounter, read_counters, start_values
from rknnlite_npu.machine.machine import Machine
from rknnlite_npu.machine.memory import Memory
from rknnlite_npu.program_chain import NEXT_PROGRAM
from rknnlite_npu.submission import Submission, plan

from rknnlite.errors import ModelInvalid
from rknnlite.formats import ModelFile
from rknnlite.spi import OpenOptions
from tests.support.corpus import goldens

from .plans import BASES, planned

FILE = Path(__file__).parent / "data" / "lstm_loop.rk3588.fp16.rknn.xz"
STEPS = 5


def model_file() -> ModelFile:
    return ModelFile(lzma.decompress(FILE.read_bytes()), label=FILE.name)


@pytest.fixture(scope="module")
def loop() -> Submission:
    return plan(model_file().model, BASES)


def element(image: np.ndarray, place: int) -> int:
    return int(image[place : place + 4].view("<u4")[0])


def test_counters_start_from_addresses(loop: Submission) -> None:
    program, image = loop.program, loop.weight_image()
    [counted] = [tensor for tensor in program.tensors if tensor.name == "DynamicCMD_StackBuf"]
    values, moved = values_of(program.words), values_of(loop.words)
    assert {counter.word is None for counter in program.counters} == {True, False}
    for counter in program.counters:
        stored = np.frombuffer(counted.content, np.uint8)
        offset = element(stored, counter.place - (counted.offset or 0))
        assert offset == (counter.commands if counter.word is None else values[counter.word])
        base = loop.placement.commands + offset if counter.word is None else moved[counter.word]
        assert element(image, counter.place) == base != offset


def test_the_rest_of_what_loops_count_in_stays(loop: Submission) -> None:
    [counted] = [tensor for tensor in loop.program.tensors if tensor.name == "DynamicCMD_StackBuf"]
    start = counted.offset or 0
    image = loop.weight_image()[start : start + counted.size].copy()
    stored = np.frombuffer(counted.content, np.uint8)
    for counter in loop.program.counters:
        at = counter.place - start
        image[at : at + 4] = stored[at : at + 4]
    assert np.array_equal(image, stored)


def test_words_that_the_npu_wrote_lead_where_the_records_lead(loop: Submission) -> None:
    """The loop ends: after each task the word behind it names the program of the next record."""
    memory = Memory()
    memory.map(BASES.weight, loop.weight_image())
    memory.map(BASES.internal, np.zeros(loop.program.internal_size + 4096, np.uint8))
    machine = Machine(loop.program.family)
    jumps = 0
    for job in loop.jobs():
        tasks = [loop.tasks[number] for number in job.cores[0]]
        for task, following in zip(tasks, tasks[1:]):
            machine.run(memory, [task])
            stored = memory.view(task.address, 8 * (task.amount + TAIL)).view("<u8")
            words = [
                CommandWord.of(word) for word in stored
            ]  # loops end with such words before the last four
            nexts = [word.value for word in words if (word.unit, word.register) == (PC, NEXT_PROGRAM)]
            assert nexts[-1] == following.address
            jumps += following.address < task.address
    assert jumps == STEPS - 2  # the first step comes before the loop


def test_the_machine_computes_every_step() -> None:
    golden = goldens(FILE.parent / "lstm_loop.rk3588.fp16.npz")[0]
    context = MachineBackend().open(model_file(), OpenOptions())
    twin = context.dup()
    first, again, other = (c.infer(list(golden.inputs))[0] for c in (context, context, twin))
    assert first.shape[0] == STEPS
    assert np.abs(first - golden.outputs[0]).max() <= 1.5e-3 * np.abs(golden.outputs[0]).max()
    assert np.array_equal(first, again)
    assert np.array_equal(first, other)


class Entry:
    def __init__(self, *numbers: int) -> None:
        self.numbers = numbers

    def i32(self, slot: int) -> int:
        return self.numbers[slot]


class Graph:
    def __init__(self, **entries: Entry) -> None:
        self.entries = entries

    def tables(self, slot: int) -> list[Entry]:
        return [self.entries[f"slot{slot}"]] if f"slot{slot}" in self.entries else []


@pytest.mark.parametrize(
    ("graph", "counters"),
    [
        (Graph(slot14=Entry(4, 8)), (64, 32)),
        (Graph(slot14=Entry(-1, 8)), (64, 32)),
        (Graph(slot14=Entry(0, 80)), (64, 32)),
        (Graph(slot15=Entry(0, 10)), (64, 32)),
        (Graph(slot15=Entry(0, -1)), (64, 32)),
        (Graph(slot15=Entry(0, 0)), None),
    ],
)
def test_a_list_that_leaves_the_file_is_damage(graph: Graph, counters: tuple[int, int] | None) -> None:
    with pytest.raises(ModelInvalid, match="loops count"):
        read_counters(graph, counters, np.zeros(10, np.uint64))  # type: ignore[arg-type]


def test_values_of_counters() -> None:
    words = np.array([0x1001 << 48 | 0xFFFF_0040 << 16 | 0x4020], np.uint64)
    found = start_values([LoopCounter(8, commands=16), LoopCounter(0, word=0)], words, 0x1000)
    assert [(place, value.tolist()) for place, value in found] == [
        (8, [0x10, 0x10, 0, 0]),
        (0, [0x40, 0, 0xFF, 0xFF]),
    ]


def test_files_without_loops_have_no_counters() -> None:
    assert planned("act_relu.rk3588.i8").program.counters == ()


def test_loops_count_from_where_tensors_lie_now() -> None:
    context = MachineBackend().open(model_file(), OpenOptions())
    golden = goldens(FILE.parent / "lstm_loop.rk3588.fp16.npz")[0]
    program = context._program
    [expected] = context.infer(list(golden.inputs))
    commands = program.submission.placement.commands
    before = program._weights.memory.ndarray.copy()
    elsewhere = [program._weights.transport.allocate(memory.size) for memory in program.io]
    for number, memory in enumerate(elsewhere):
        memory.ndarray[:] = program.io[number].ndarray
        program.place_io(number, memory)
    for place, value in start_values(program.program.counters, program.words._words, commands):
        assert program._weights.memory.ndarray[place : place + 4].tolist() == value.tolist()
    program.run(0, False)
    stored = context._variant.forms[1].unpack(program.io[1].ndarray)
    assert np.array_equal(stored.astype(np.float32).reshape(expected.shape), expected)
    for number in range(len(elsewhere)):
        program.place_io(number, None)
    for place, _ in start_values(program.program.counters, program.words._words, commands):
        assert np.array_equal(program._weights.memory.ndarray[place : place + 4], before[place : place + 4])
