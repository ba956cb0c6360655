"""Boards from afar: what they tell of themselves, for whatever looks at the machine here."""

from __future__ import annotations

from pathlib import Path

from rknnlite_protocol.board_facts import Facts

from rknnlite import socs
from rknnlite.commandline.devices import reaching
from rknnlite.errors import DeviceUnavailable
from rknnlite.native.board import Board, Clock, DeviceNode, Reading, Sram
from rknnlite.spi import Backend

__all__ = ["FarBoard", "cause_of", "devices_of", "far_board"]


def devices_of(device: str, wanted: str | None = None) -> list[tuple[str, Backend]]:
    """Every device that an id stands for, with its backend; raises as ``reaching`` does."""
    backend = reaching(device, wanted)
    return [(one, backend) for one in backend.boards(device)]


def far_board(device: str, backend: Backend) -> FarBoard:
    """What a board says of itself now; raises DeviceUnavailable where it does not answer, or is this very machine."""
    facts = backend.facts(device)
    if facts is None:
        raise DeviceUnavailable(
            f"device {device} (backend {backend.name}) is part of this machine and says nothing of its own; leave --device out"
        )
    return FarBoard(facts)


def cause_of(error: Exception) -> tuple[str, str]:
    """What happened and what to do about it, of an error of the form "cause; remedy"."""
    cause, _, remedy = str(error).rpartition("; ")
    return (cause, remedy) if cause else (remedy, "")


class FarBoard(Board):
    """A machine from afar by what it told once, for whatever looks at the one here."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(Path("/"))
        self.facts = facts

    def soc(self) -> socs.Soc | None:
        return socs.table().get(self.facts.soc.lower())

    def model(self) -> str:
        return self.facts.model

    def kernel(self) -> str:
        return self.facts.kernel

    def memory(self) -> dict[str, int]:
        return dict(self.facts.memory)

    def driver(self) -> Reading[str]:
        return self.facts.driver

    def load(self) -> Reading[list[int]]:
        return self.facts.load

    def sram(self) -> Reading[Sram]:
        return self.facts.sram

    def npu_clock(self) -> Clock | None:
        return self.facts.npu_clock

    def memory_clock(self) -> Clock | None:
        return self.facts.memory_clock

    def cpu_clocks(self) -> list[Clock]:
        return list(self.facts.cpu_clocks)

    def temperatures(self) -> dict[str, float]:
        return dict(self.facts.temperatures)

    def nodes(self) -> list[DeviceNode]:
        return list(self.facts.nodes)
