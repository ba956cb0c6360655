"""Registers live on in two groups that take turns."""

from __future__ import annotations

import pytest
from rknnlite_npu.command_words import (
    CNA,
    CORE,
    DPU,
    DPU_RDMA,
    PPU,
    PPU_RDMA,
    TAIL,
    Words,
    numbers_of,
    units_of,
)
from rknnlite_npu.register_groups import STARTED, started_registers, units_started

from .plans import SOCS, plans_of

TABLE = {0x4100, 0x4104}
"""The window into activation tables, no state."""


def written(words: Words, unit: int) -> set[int]:
    """Registers of a unit that a program writes."""
    return set(numbers_of(words)[units_of(words) == unit].tolist()) - TABLE


def test_units_are_bits() -> None:
    assert units_started(0x1D) == (CNA, CORE, DPU, DPU_RDMA)
    assert units_started(0x60) == (PPU, PPU_RDMA)


@pytest.mark.parametrize("soc", SOCS)
def test_what_a_task_leaves_out_the_last_but_one_has_left_there(soc: str) -> None:
    """Each unit that starts has all registers that the fullest program of its job writes, in every family."""
    started = differences = 0
    for name, found in plans_of(soc):
        for job in found.jobs(7 if soc == "rk3588" else 0):
            for core in job.cores:
                programs = [(found.tasks[i].enable, found.words_of(i)[:-TAIL]) for i in core]
                full: dict[int, set[int]] = {
                    unit: max((written(w, unit) for _, w in programs), key=len, default=set())
                    for unit in STARTED
                }
                for (_, words), state in zip(programs, started_registers(programs)):
                    for unit, registers in state.items():
                        assert full[unit] <= registers.keys(), (name, unit)
                        started += 1
                        differences += len(written(words, unit)) < len(registers)
    assert started > 5
    assert differences > 100 or soc in ("rk3576", "rv1126b", "rv1103", "rv1106b")
