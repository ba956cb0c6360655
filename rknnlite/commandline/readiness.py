"""The last line of ``doctor`` and ``devices``: whether models can be run here, and on what."""

from __future__ import annotations

import re
from pathlib import Path

from .. import config, plugins
from ..socs import Soc
from ..spi import Probe
from ..spi.command import Line, Tone

__all__ = ["ON_THE_CPU", "brief", "not_ready", "ready", "verdict_of"]

ON_THE_CPU = "ready on the CPU reference"

_FOLDERS = re.compile(r"/[\w./+-]+(?:, /[\w./+-]+){3,}")


def ready(wanted: str | None = None, soc: Soc | None = None, warnings: int = 0) -> Line:
    """What models run on: the backend that is wanted or configured, else the best one that there is."""
    wanted = wanted or config.get("backend") or None
    probes = [(plugins.probe(b), b) for b in plugins.backends().values() if wanted in (None, b.name)]
    usable = [pair for pair in probes if pair[0].available]
    if not usable:
        reasons = [probe.reason for probe, _ in probes]
        nobody = f"backend {wanted} cannot run models here" if wanted else "no backend can run models here"
        return not_ready(reasons[0] if wanted and reasons else nobody)
    probe, backend = max(usable, key=lambda pair: pair[0].priority)
    where = soc.name if soc is not None else ""
    if probe.library and not where:
        where = next((device.soc for device in backend.devices()), "")
    return verdict_of(backend.name, probe, where, warnings)


def verdict_of(backend: str, probe: Probe, soc: str, warnings: int = 0, place: str = "") -> Line:
    """That models run, on what, and how many warnings there are; ``place`` says on which machine."""
    text = ON_THE_CPU
    if probe.library:
        library = f"{Path(probe.library).name.partition('.')[0]} {probe.version or 'of unknown version'}"
        text = ", ".join(filter(None, (f"ready on {library}", soc)))
    elif backend != "cpu":
        text = f"ready on {backend}"
    if warnings:
        return Line(f"{text}{place}, with {warnings} warning{'s' * (warnings > 1)} above", Tone.WARN)
    return Line(f"{text}{place}", Tone.GOOD)


def not_ready(reason: str) -> Line:
    """Why nothing runs."""
    return Line(f"not ready: {brief(reason)}", Tone.BAD, 2)


def brief(text: str) -> str:
    """A reason that lists many folders, with their number instead."""
    return _FOLDERS.sub(lambda found: f"{found[0].count(', ') + 1} folders", text)
