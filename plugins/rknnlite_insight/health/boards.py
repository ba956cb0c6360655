"""A board from afar: the same checks as here, as far as its facts allow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from rknnlite_protocol.board_facts import BackendFacts

from rknnlite import config
from rknnlite._version import __version__
from rknnlite.errors import ModelInvalid, RknnError
from rknnlite.formats import ModelFile
from rknnlite.spi.finding import Finding, Level

from ..remote_board import FarBoard, cause_of, devices_of, far_board
from .machine import kernel, speed
from .models import made_for, pairing

__all__ = ["best_of", "board", "named"]

_NAMES = 8


def board(found: FarBoard, file: ModelFile | None = None) -> Iterator[Finding]:
    """Server, kernel, speed and backends of a board, and whether a model goes with it; remedies are for over there."""
    yield from _server(found)
    checks = [*kernel(found), *speed(found), *_backends(found)]
    yield from (
        replace(one, remedy=f"on that machine: {one.remedy}") if one.remedy else one for one in checks
    )
    if file is not None:
        yield from _model(found, file)


def named() -> Iterator[Finding]:
    """Whether the boards that the settings name answer, and what they are."""
    names = list(dict.fromkeys([*config.entries("remotes"), *filter(None, [config.get("remote")])]))
    if names:
        with ThreadPoolExecutor(len(names)) as pool:  # one that is off takes its time to say nothing
            for found in pool.map(_named, names):
                yield from found


def _named(name: str) -> list[Finding]:
    topic, found = "boards", []
    try:
        boards = devices_of(name)
    except RknnError as error:
        return [_trouble(topic, error)]
    for address, backend in boards:
        label = name if address == name else f"{name} ({address})"
        try:
            there = far_board(address, backend)
        except RknnError as error:
            found.append(_trouble(topic, error))
            continue
        soc = there.soc()
        what = f"{soc.name.upper()}, {there.model()}" if soc else "no Rockchip NPU is known there"
        found.append(Finding(topic, Level.OK, f"{label}: {what}, rknnlite {there.facts.rknnlite}"))
    return found


def _trouble(topic: str, error: RknnError) -> Finding:
    cause, remedy = cause_of(error)
    return Finding(topic, Level.WARN, cause, remedy or "look whether its server runs: rknnlite serve")


def best_of(backends: Sequence[BackendFacts]) -> BackendFacts | None:
    """The backend on which its server runs models unless it was told another."""
    usable = [backend for backend in backends if backend.probe.available]
    return max(usable, key=lambda backend: backend.probe.priority, default=None)


def _server(found: FarBoard) -> Iterator[Finding]:
    topic, facts = "server", found.facts
    if facts.rknnlite == __version__:
        yield Finding(topic, Level.OK, f"rknnlite {facts.rknnlite}, as here")
    else:
        text = f"rknnlite {facts.rknnlite} there, {__version__} here"
        yield Finding(topic, Level.INFO, text, "update the older one if a call is unknown to it")
    more = f" and {len(facts.models) - _NAMES} more" if len(facts.models) > _NAMES else ""
    yield Finding(topic, Level.OK, f"models: {', '.join(facts.models[:_NAMES]) or 'none'}{more}")
    if not facts.uploads:
        text = "takes no files: only the models that it has can be run"
        yield Finding(topic, Level.INFO, text, "to send others: start it with rknnlite serve --allow-upload")


def _backends(found: FarBoard) -> Iterator[Finding]:
    topic, best = "backends", best_of(found.facts.backends)
    for backend in sorted(found.facts.backends, key=lambda one: -one.probe.priority):
        mark = " (best)" if backend is best else ""
        reason, remedy = (backend.probe.reason, "") if backend.probe.available else backend.probe.cause()
        level = Level.OK if backend.probe.available else Level.INFO
        yield Finding(topic, level, f"{backend.name}{mark}: {reason}", remedy)
        for device in backend.devices:
            yield Finding(topic, Level.OK, f"{backend.name}: device {device.id}, {device.soc}")
    if best is None:
        yield Finding(topic, Level.FAIL, "no backend can run models there", "rknnlite doctor")
    soc = found.soc()
    if soc is not None and best is not None and best.probe.priority <= 0:
        text = f"it is an {soc.name.upper()} with an NPU, but models run on the CPU reference"
        yield Finding(topic, Level.WARN, text, "rknnlite doctor")


def _model(found: FarBoard, file: ModelFile) -> Iterator[Finding]:
    topic = "model"
    try:
        yield from made_for(topic, file, found.soc())
    except ModelInvalid as error:
        yield Finding(topic, Level.FAIL, str(error), "see rknnlite info")
        return
    best = best_of(found.facts.backends)
    if best is not None and best.probe.version:
        yield pairing(topic, best.name, file.model.toolkit_version, best.probe.version)
