"""Register commands and activation tables, from hand-made tasks."""

from __future__ import annotations

import contextlib
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rknnlite_graph.reading.registers import RegisterProgram

from rknnlite.errors import ModelInvalid

DPU = 0x1001


def words(*pairs: tuple[int, int]) -> bytes:
    """unit << 48 | value << 16 | register"""
    return b"".join(struct.pack("<Q", DPU << 48 | value << 16 | register) for register, value in pairs)


def task(op: int, amount: int, addr: int) -> bytes:
    return struct.pack("<8IQ", 0, op, 0x1D, 0, 0, 0, amount, 0, addr)


def upload(*tables: tuple[int, np.ndarray]) -> bytes:
    """0x4100 selects a table, then 513 points go to 0x4104."""
    pairs: list[tuple[int, int]] = []
    for number, points in tables:
        pairs.append((0x4100, 0x20000 | number << 16))
        pairs += [(0x4104, int(point) & 0xFFFF) for point in points]
    return words(*pairs)


def test_registers_of_a_node() -> None:
    commands = words((0x4080, 7), (0x4084, 0xFFFFFFFF), (0x4080, 9)) + words((0x4088, 1))
    program = RegisterProgram.from_tasks(memoryview(task(0, 3, 0) + task(2, 1, 24)), memoryview(commands))
    assert program.first(0) == {0x4080: 9, 0x4084: 0xFFFFFFFF}
    assert program.first(1) == {} and program.registers(1) == []
    assert program.first(2) == {0x4088: 1}
    assert program.tables(0) is None


def test_only_the_single_core_program_counts() -> None:
    """Programs for more cores follow; node numbers fall where they begin."""
    commands = words((1, 1), (1, 2), (1, 3))
    tasks = task(0, 1, 0) + task(1, 1, 8) + task(0, 1, 16) + task(1, 1, 16)
    program = RegisterProgram.from_tasks(memoryview(tasks), memoryview(commands))
    assert [dict(r) for r in program.registers(0)] == [{1: 1}]
    assert [dict(r) for r in program.registers(1)] == [{1: 2}]


@pytest.mark.parametrize("extra", [0, 1])
@pytest.mark.parametrize("together", [True, False])
def test_activation_tables(together: bool, extra: int) -> None:
    """One upload with both tables, or one each, some with a point too many."""
    low, high = np.arange(513) - 16384, np.arange(513) * 3 - 700
    parts = [(0, np.append(low, [1] * extra)), (1, np.append(high, [2] * extra))]
    uploads = [upload(*parts)] if together else [upload(part) for part in parts]
    tasks, commands = b"", b""
    for data in uploads:
        tasks += task(4, len(data) // 8, len(commands))
        commands += data
    tasks += task(4, 1, len(commands))
    program = RegisterProgram.from_tasks(memoryview(tasks), memoryview(commands + words((0x4070, 1))))
    tables = program.tables(4)
    assert tables is not None
    assert np.array_equal(tables[0], low) and np.array_equal(tables[1], high)
    assert program.first(4) == {0x4070: 1}, "an upload is no task that computes"


@pytest.mark.parametrize(
    ("amount", "addr"), [(2, 0), (1, 8), (1, 1 << 40), ((1 << 32) - 1, 0), (1, (1 << 64) - 1)]
)
def test_commands_outside_their_blob(amount: int, addr: int) -> None:
    program = RegisterProgram.from_tasks(memoryview(task(3, amount, addr)), memoryview(words((1, 1))))
    for read in (program.first, program.registers, program.tables):
        with pytest.raises(ModelInvalid, match=r"register commands of node 3: .* leave the blob of 8 bytes"):
            read(3)


@given(st.binary(max_size=200), st.binary(max_size=100), st.booleans())
def test_garbage(tasks: bytes, commands: bytes, cores: bool) -> None:
    program = RegisterProgram.from_tasks(memoryview(tasks), memoryview(commands), cores)
    for node in range(3):
        with contextlib.suppress(ModelInvalid):
            program.first(node), program.registers(node), program.tables(node)
