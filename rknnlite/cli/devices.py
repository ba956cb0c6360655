"""``rknnlite devices``: what can run models here: per backend whether, on what, and if not why."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

from .. import plugins
from ..choosing import devices
from ..commandline.readiness import brief, ready
from ..native.board import Board
from ..spi import Device
from ..spi.command import Column, Command, Console, Exit, Line, Part, Table, Tone, as_json

__all__ = ["COMMAND", "Found", "probes"]


@dataclass(frozen=True)
class Found:
    """One backend and its answer."""

    backend: str
    generation: str
    available: bool
    priority: int
    devices: tuple[str, ...]
    reason: str
    coprocessors: tuple[Device, ...] = ()
    generations: tuple[str, ...] = ()


def probes() -> list[Found]:
    """All backends, those that would be chosen first at the top."""
    known = devices()
    asked = [(backend, plugins.probe(backend)) for backend in plugins.backends().values()]
    found = [
        Found(
            backend.name,
            backend.generation,
            probe.available,
            probe.priority,
            probe.devices,
            probe.reason,
            known.get(backend.name, ()),
            backend.generations,
        )
        for backend, probe in asked
    ]
    return sorted(found, key=lambda entry: (not entry.available, -entry.priority, entry.backend))


def _data(entry: Found) -> dict[str, Any]:
    """For programs, who are told what sizes are in."""
    devices = as_json(entry.coprocessors)
    for device in devices:
        for name in ("memory_total", "memory_free"):
            device[f"{name}_bytes"] = device.pop(name)
    return {**vars(entry), "coprocessors": devices}


def _device(backend: str, device: Device) -> str:
    soc = f", {device.soc}" if device.soc else ""
    free = (
        f", {device.memory_free >> 20} of {device.memory_total >> 20} MiB free" if device.memory_total else ""
    )
    where = f", at {device.address}" if device.address not in ("", device.id) else ""
    return f"{backend}: device {device.id}{soc}{where}{free}"


def _generations(entry: Found) -> str:
    """``rknpu1-3`` of a backend that stands for all, the one name of others."""
    names = sorted(entry.generations)
    if len(names) < 2 or entry.generation == "any":
        return entry.generation
    return f"{names[0]}-{names[-1][-1]}"


_COLUMNS = (
    Column("backend"),
    Column("generation", drop=2),
    Column("usable"),
    Column("devices", least=12, drop=1),
    Column("why", least=24),
)


class Devices(Command):
    """See the module."""

    name = "devices"
    help = "backends and the devices they find"
    examples = ("rknnlite devices",)

    def run(self, args: argparse.Namespace, console: Console) -> int:
        found = probes()
        rows = [
            [
                entry.backend,
                _generations(entry),
                "yes" if entry.available else "no",
                ", ".join(entry.devices) or "-",
                brief(entry.reason if entry.available else entry.reason.partition("; ")[0]),
            ]
            for entry in found
        ]
        lines: list[Part] = []
        for entry in found:
            lines += [_device(entry.backend, device) for device in entry.coprocessors]
        if not all(entry.available for entry in found):
            lines.append(Line("what to do about one: rknnlite doctor --backend NAME", Tone.QUIET))
        console.report(
            [_data(entry) for entry in found], Table(_COLUMNS, rows), *lines, "", ready(soc=Board().soc())
        )
        return Exit.OK if any(entry.available for entry in found) else Exit.UNAVAILABLE


COMMAND = Devices()
