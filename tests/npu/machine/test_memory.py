"""Buffers at addresses: what lies in one is a view, what lies in none is refused."""

from __future__ import annotations

import numpy as np
import pytest
from rknnlite_npu.machine.memory import Memory
from rknnlite_npu.machine.refused import MachineRefused

from rknnlite.errors import InputInvalid, RknnError


@pytest.fixture
def memory() -> Memory:
    memory = Memory()
    memory.map(0x3000, np.arange(64, dtype=np.uint8))
    memory.map(0x1000, np.arange(32, dtype=np.uint8))
    return memory


def test_views_write_through(memory: Memory) -> None:
    memory.view(0x1004, 2)[:] = 99
    assert memory.view(0x1000, 8).tolist() == [0, 1, 2, 3, 99, 99, 6, 7]
    assert memory.view(0x3000, 64)[-1] == 63


@pytest.mark.parametrize(
    ("address", "size"),
    [(0xFFF, 1), (0x101F, 2), (0x1020, 1), (0x2FFF, 2), (0, 1 << 40), (0x1000, -1), (1 << 40, 1)],
)
def test_nothing_outside_is_read(memory: Memory, address: int, size: int) -> None:
    with pytest.raises(MachineRefused) as raised:
        memory.view(address, size)
    assert isinstance(raised.value, RknnError) and raised.value.value == address
    assert f"{address:#x}" in str(raised.value) and "the nearest is 0x" in str(raised.value)


def test_a_buffer_that_is_taken_away_is_gone(memory: Memory) -> None:
    memory.unmap(0x1000)
    memory.unmap(0x1000)
    with pytest.raises(MachineRefused, match="0x3000 to 0x3040"):
        memory.view(0x1000, 1)


@pytest.mark.parametrize("address", [0xFE1, 0x101F, 0x3001, -1, 0xFFFF_FFF0])
def test_buffers_do_not_overlap_nor_leave_32_bits(memory: Memory, address: int) -> None:
    with pytest.raises(InputInvalid):
        memory.map(address, np.zeros(32, np.uint8))


def test_a_buffer_is_a_row_of_bytes(memory: Memory) -> None:
    for content in (np.zeros(8, np.int8), np.zeros((2, 2), np.uint8), np.zeros(8, np.uint8)[::2]):
        with pytest.raises(InputInvalid, match="contiguous row"):
            memory.map(0x9000, content)  # type: ignore[arg-type]
