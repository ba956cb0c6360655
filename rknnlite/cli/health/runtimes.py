"""Backends and plugins: who computes here, and why others do not."""

from __future__ import annotations

from collections.abc import Iterator

from ... import config, plugins
from ...native.board import Board
from ...socs import Soc
from ...spi.finding import Finding, Level
from ..installed_plugins import installed

__all__ = ["backends", "of_backends"]


def backends(wanted: str | None, soc: Soc | None = None) -> Iterator[Finding]:
    """Every backend; one that was asked for and cannot run is a failure, the CPU on a board with an NPU a warning."""
    topic, chosen = "backends", wanted or config.get("backend")
    known = plugins.backends()
    if chosen and chosen not in known:
        there = ", ".join(sorted(known)) or "none"
        yield Finding(
            topic,
            Level.FAIL,
            f"no backend is named {chosen!r}",
            f"choose one of: {there}; see rknnlite plugins",
        )
    probed = sorted(
        ((plugins.probe(backend), backend) for backend in known.values()), key=lambda pair: -pair[0].priority
    )
    usable = [backend.name for probe, backend in probed if probe.available and backend.runs_networks]
    chosen = chosen or (usable[0] if usable else None)
    for probe, backend in probed:
        level = Level.OK if probe.available else Level.FAIL if backend.name == chosen else Level.INFO
        mark = " (chosen)" if backend.name == chosen else ""
        reason, remedy = (probe.reason, "") if probe.available else probe.cause()
        remedy = remedy or ("choose another backend: rknnlite devices" if level is Level.FAIL else "")
        yield Finding(topic, level, f"{backend.name}{mark}: {reason}", remedy)
    if not usable:
        yield Finding(
            topic, Level.FAIL, "no backend can run models here", "rknnlite plugins shows what is installed"
        )
    best = next((probe for probe, backend in probed if probe.available and backend.runs_networks), None)
    if soc is not None and best is not None and best.priority <= 0 and not wanted:
        text = f"this {soc.name.upper()} has an NPU, but models run on the CPU reference"
        fitting = [
            probe
            for probe, backend in probed
            if backend.runs_networks and backend.generation == soc.generation and probe != best
        ]
        remedies = [probe.cause()[1] or "mend what the lines under 'board' name" for probe in fitting]
        yield Finding(topic, Level.WARN, text, next(iter(remedies), "install the plugin that drives it"))
    yield from _plugins(topic)


def of_backends(board: Board) -> Iterator[Finding]:
    """What backends say of this machine themselves; one that raises against its contract says that."""
    for backend in plugins.backends().values():
        try:
            yield from backend.findings(board)
        except Exception as error:
            yield Finding(
                "backends", Level.WARN, f"backend {backend.name} cannot look at this machine: {error}"
            )


def _plugins(topic: str) -> Iterator[Finding]:
    """Those that are switched off, not installed, or broken."""
    installed()  # calls every hook
    problems = sorted(plugins.problem_list())
    absent = [problem for problem in problems if problem.text.startswith(plugins.NOT_INSTALLED)]
    if len(absent) > 1:
        names = ", ".join(problem.plugin for problem in absent)
        yield Finding(
            topic,
            Level.INFO,
            f"plugins not installed: {names} (Debian: rknnlite plugins says which packages)",
        )
        problems = [problem for problem in problems if problem not in absent]
    for problem in problems:
        name, text = problem.plugin, problem.text
        off = plugins.SWITCHED_OFF in text or text.startswith(plugins.NOT_INSTALLED)
        remedy = problem.remedy or f"update or remove that package, or RKNNLITE_DISABLE={name}"
        yield Finding(
            topic, Level.INFO if off else Level.WARN, f"plugin {name}: {text}", "" if off else remedy
        )
