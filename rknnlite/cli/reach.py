"""``--device``: which backend reaches it, and what a board from afar tells of itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .. import plugins, socs
from ..errors import BackendUnavailable, DeviceUnavailable
from ..native.board import Board, Clock, DeviceNode, Reading, Sram
from ..spi import Backend, Context

if TYPE_CHECKING:
    from ..protocol.board import Facts

__all__ = ["DEVICE", "FarBoard", "cause_of", "devices_of", "far_board", "is_afar", "place_of_run", "reaching"]

DEVICE = (
    "a board by HOST:PORT or its name among remotes (several: HOST:PORT,HOST:PORT), or a coprocessor's id"
)
"""The help of ``--device``."""


def reaching(device: str, wanted: str | None = None) -> Backend:
    """The backend that knows a device, of all or the one that is wanted: an unknown id never means this machine's CPU.

    Raises:
        BackendUnavailable: none does. ParamInvalid: the device cannot be used as it is configured.
    """
    asked = [plugins.backend(wanted)] if wanted else list(plugins.backends().values())
    for backend in asked:
        if backend.boards(device):
            return backend
    there = ", ".join(found.id for backend in asked for found in backend.devices())
    known = f" to backend {wanted}" if wanted else ""
    raise BackendUnavailable(
        f"no device {device!r} is known{known} (there: {there or 'none'}); give HOST:PORT, or name it in remotes of the "
        "configuration"
    )


def is_afar(backend: Backend) -> bool:
    """Whether it reaches other machines: no operators of this one go there."""
    return type(backend).facts is not Backend.facts


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


def place_of_run(context: Context, device: str) -> str:
    """Where a model was run, for whoever reads the figures: ``board:8001: RK3588, librknnrt 2.3.2, driver 0.9.8``."""
    versions = context.versions
    runtime = (
        f"{versions.library} {versions.api}, driver {versions.driver}" if versions.library else versions.api
    )
    return f"{device}: {context.soc.name.upper()}, {runtime}"


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
