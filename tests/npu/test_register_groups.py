"""Registers live on in two groups that take turns."""

from __future__ import annotations

from rknnlite_npu.command_words import CNA, CORE, DPU, DPU_RDMA, PPU, PPU_RDMA
from rknnlite_npu.register_groups import started_registers, units_started

from .plans import plans_of

NEEDED = {
    CNA: {0x100C, 0x1020, 0x1070, 0x1110}, CORE: {0x3010, 0x3014}, DPU: {0x4010, 0x4020, 0x4030}, DPU_RDMA: {0x500C},
    PPU: {0x600C, 0x6070}, PPU_RDMA: {0x701C},
}  # fmt: skip
"""Without which a unit can do nothing."""


def test_units_are_bits() -> None:
    assert units_started(0x1D) == (CNA, CORE, DPU, DPU_RDMA)
    assert units_started(0x60) == (PPU, PPU_RDMA)


def test_every_task_for_rk3588_finds_its_registers_complete() -> None:
    tasks = differences = 0
    for name, found in plans_of("rk3588"):
        for job in found.jobs(7):
            for core in job.cores:
                programs = [(found.tasks[i].enable, found.words_of(i)[:-4]) for i in core]
                for (_, words), state in zip(programs, started_registers(programs)):
                    for unit, registers in state.items():
                        assert NEEDED[unit] <= registers.keys(), (name, unit)
                        tasks += 1
                        differences += len(words) < len(registers)
    assert tasks > 5000 and differences > 500
