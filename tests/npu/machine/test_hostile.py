"""Damaged words and records: a typed error or an end, soon, within little memory, and nothing outside of the buffers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rknnlite_npu.command_words import CNA, CORE, DPU, DPU_RDMA, CommandWord
from rknnlite_npu.machine.machine import Machine
from rknnlite_npu.machine.memory import Memory
from rknnlite_npu.machine.refused import MachineRefused
from rknnlite_npu.task import Task

from rknnlite.errors import RknnError
from tests.support import damage
from tests.support.examples import examples

from ..plans import BASES, planned
from .programs import CODES, CONVOLUTION, ELEMENTWISE, RK3588, Board, blocks, convolution, copying, cube

VICTIMS = (
    "act_silu.rk3588.i8",
    "unet_like.rk3588.i8",
    "attention.rk3588.i8",
    "mobilenetv2_like.rk3588.fp16",
    "pooling.rk3588.i8",
)
SECONDS, ALLOWANCE = 30.0, 1400 << 20
EDGES = st.one_of(
    st.sampled_from([0, 1, 0x7F, 0xFFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]),
    st.integers(0, 0xFFFFFFFF),
)
Change = tuple[int, int]


@cache
def prepared(name: str) -> tuple[list[Task], np.ndarray, int]:
    """(records, content of the weight buffer, bytes of the internal one)."""
    plan = planned(name)
    tasks = [plan.tasks[i] for job in plan.jobs() for i in job.cores[0]]
    return tasks, plan.weight_image(), plan.program.internal_size


def run(name: str, changes: list[Change]) -> None:
    tasks, image, internal = prepared(name)
    image = np.concatenate([image, np.zeros(4096, np.uint8)])
    plan = planned(name)
    words = image[plan.program.commands_offset :][: 8 * len(plan.words)].view("<u8")
    for place, value in changes:
        word = CommandWord.of(words[place % len(words)])
        words[place % len(words)] = word._replace(value=value).number
    memory = Memory()
    memory.map(BASES.weight, image)
    memory.map(BASES.internal, np.zeros(internal + 4096, np.uint8))
    machine = Machine(RK3588)
    with damage.limits(SECONDS, ALLOWANCE):
        for task in tasks:
            try:
                machine.run(memory, [task])
            except RknnError as error:
                assert str(error)


@pytest.mark.parametrize("name", VICTIMS)
def test_words_with_other_values(name: str) -> None:
    @settings(max_examples=examples(4), deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.tuples(st.integers(0, 1 << 20), EDGES), min_size=1, max_size=30))
    def check(changes: list[Change]) -> None:
        run(name, changes)

    check()


def convolved(unit: int, register: int, value: int) -> None:
    board = Board()
    features, weights = np.ones((4, 4, 32), np.int8), np.ones((32, 3, 3, 32), np.int8)
    registers = convolution(
        features, weights, (2, 2), CODES["int8"],
        source=board.place(cube(features)), kernels=board.place(blocks(weights)), target=board.room(4 * 32),
    )  # fmt: skip
    registers[unit][register] = value
    with damage.limits(SECONDS, ALLOWANCE):
        board.run(registers, CONVOLUTION)


def copied(unit: int, register: int, value: int) -> None:
    board = Board()
    registers = copying((4, 4, 16), "int8", board.room(256), board.room(256))
    registers[unit][register] = value
    with damage.limits(SECONDS, ALLOWANCE):
        board.run(registers, ELEMENTWISE)


@pytest.mark.parametrize(
    ("use", "unit", "register", "value"),
    [
        (convolved, CNA, 0x1070, 0x5), (convolved, CNA, 0x1110, 0xFFFFFFFF), (convolved, CNA, 0x1020, 0x07FF07FF),
        (convolved, CNA, 0x1030, 0xFFFFFFFF), (convolved, CNA, 0x1038, 0x1F1F3FFF), (convolved, CNA, 0x107C, 0xFFFFFFF),
        (convolved, CNA, 0x1014, 0x3FFFFFF), (convolved, CORE, 0x3014, 0xFFFFFFFF), (convolved, CNA, 0x1080, 0x8000000),
        (copied, DPU, 0x4020, 0), (copied, DPU, 0x4038, 0x1FFF), (copied, DPU, 0x405C, 0x1FFF1FFF),
        (copied, DPU_RDMA, 0x5018, 0xFFFFFFF0), (copied, DPU_RDMA, 0x500C, 0x1FFF), (copied, DPU_RDMA, 0x5048, 0xFFF80000),
    ],
)  # fmt: skip
def test_sizes_and_places_beyond_the_buffers(
    use: Callable[[int, int, int], None], unit: int, register: int, value: int
) -> None:
    with pytest.raises(MachineRefused):
        use(unit, register, value)


def test_the_same_bytes_again_and_again_are_no_way_to_fill_memory() -> None:
    """Rows without a step: 8192 x 8192 positions of 16 bytes."""
    board = Board()
    registers = copying((1, 1, 16), "int8", board.room(1 << 18), board.room(16))
    registers[DPU_RDMA] |= {0x500C: 0x1FFF, 0x5010: 0x1FFF, 0x5048: 0}
    registers[DPU] |= {0x4030: 0x1FFF, 0x4034: 0x1FFF, 0x405C: 0x1FFF1FFF}
    with damage.limits(SECONDS, 64 << 20), pytest.raises(MachineRefused, match="8192 x 8192"):
        board.run(registers, ELEMENTWISE)


@pytest.mark.parametrize("amount", [0, 1 << 20, (1 << 32) - 1])
def test_records_that_lie(amount: int) -> None:
    board = Board()
    task = board.task(copying((1, 1, 16), "int8", board.room(16), board.room(16)), ELEMENTWISE)
    with pytest.raises(MachineRefused):
        board.machine.run(board.memory, [task._replace(amount=amount)])
    with pytest.raises(MachineRefused, match="lie in no buffer"):
        board.machine.run(board.memory, [task._replace(address=0x10)])
