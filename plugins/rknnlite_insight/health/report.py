"""``rknnlite doctor --device``: what is right and wrong with boards from afar."""

from __future__ import annotations

from pathlib import Path

from rknnlite.commandline.finding_output import finding_parts
from rknnlite.commandline.options import model_file
from rknnlite.commandline.readiness import not_ready, verdict_of
from rknnlite.errors import DeviceUnavailable, ModelInvalid
from rknnlite.formats import ModelFile
from rknnlite.spi import Backend
from rknnlite.spi.command import Console, Exit, Line, Part, Tone
from rknnlite.spi.finding import Finding, Level

from ..remote_board import cause_of, devices_of, far_board
from .boards import best_of
from .boards import board as board_findings

__all__ = ["look_afar"]


def look_afar(device: str, backend: str | None, model: Path | None, console: Console) -> int:
    """Look at every board that a device stands for; one that does not answer is a failure among its findings."""
    file = model_file(model) if model else None
    data: list[dict[str, object]] = []
    parts: list[Part] = []
    bad = False
    for name, reached_by in devices_of(device, backend):
        found, verdict = _examine(name, reached_by, file)
        failed = any(finding.level is Level.FAIL for finding in found)
        bad = bad or failed
        data.append({"device": name, "healthy": not failed, "findings": found})
        parts += [*([""] if parts else []), *_parts(name, found), verdict]
    console.report({"healthy": not bad, "devices": data}, *parts)
    return Exit.UNAVAILABLE if bad else Exit.OK


def _examine(name: str, backend: Backend, file: ModelFile | None) -> tuple[list[Finding], Line]:
    """The findings of a board, and whether models can be run there."""

    try:
        board = far_board(name, backend)
    except DeviceUnavailable as error:
        cause, remedy = cause_of(error)
        return [Finding("server", Level.FAIL, cause, remedy)], not_ready(cause)
    try:
        found = list(board_findings(board, file))
    except ModelInvalid as error:
        found = [Finding("model", Level.FAIL, str(error), "name a .rknn file that can be read")]
    failed = [finding for finding in found if finding.level is Level.FAIL]
    if failed:
        return found, not_ready(failed[0].text)
    warned = sum(finding.level is Level.WARN for finding in found)
    best = best_of(board.facts.backends)
    assert best is not None  # else that is a failure
    soc = board.soc()
    return found, verdict_of(best.name, best.probe, soc.name if soc else "", warned, f" on {name}")


def _parts(name: str, found: list[Finding]) -> list[Part]:
    counts = [sum(finding.level is level for finding in found) for level in (Level.FAIL, Level.WARN)]
    counted = f"failures: {counts[0]}, warnings: {counts[1]}"
    return [Line(name, Tone.HEAD), *finding_parts(found), "", counted]
