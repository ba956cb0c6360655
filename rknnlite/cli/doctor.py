"""``rknnlite doctor``: what is right and wrong with this machine, and one remedy per finding."""

from __future__ import annotations

import argparse
from pathlib import Path

from .._faces import vendor_files
from ..errors import ModelInvalid
from ..spi.command import Command, Console, Exit
from . import health
from .board import Board
from .health import Finding, Level
from .options import model_file
from .plugin_probe import leave_out_what_crashes

__all__ = ["COMMAND", "examine"]


def examine(board: Board, backend: str | None = None, model: Path | None = None) -> list[Finding]:
    """All findings, in the order in which a person would look; only the first where nothing else can be looked at."""
    if vendor_files.replaced():
        return list(health.packages())
    found = [
        *health.packages(),
        *health.configuration(),
        *health.kernel(board),
        *health.speed(board),
        *health.backends(backend, board.soc()),
    ]
    if model is None:
        return found
    try:
        file = model_file(model)
    except ModelInvalid as error:
        return [*found, Finding("model", Level.FAIL, str(error), "name a .rknn file that can be read")]
    return found + list(health.model(file, board, backend))


class Doctor(Command):
    """See the module."""

    name = "doctor"
    help = "what is wrong with this installation, and what to do about it"
    examples = ("rknnlite doctor", "rknnlite doctor model.rknn --backend rknnrt")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "model", nargs="?", type=Path, metavar="MODEL", help="also: does this model go with it?"
        )
        parser.add_argument("--backend", metavar="NAME", help="the backend that is wanted")
        parser.add_argument("--root", type=Path, default=Path("/"), metavar="FOLDER", help=argparse.SUPPRESS)

    def run(self, args: argparse.Namespace, console: Console) -> int:
        if not vendor_files.replaced():
            leave_out_what_crashes()
        found = examine(Board(args.root), args.backend, args.model)
        failed = [finding for finding in found if finding.level is Level.FAIL]
        data = {"healthy": not failed, "findings": found}
        console.report(data, _text(found))
        return Exit.UNAVAILABLE if _stops(failed, args.backend) else Exit.OK


def _stops(failed: list[Finding], backend: str | None) -> bool:
    """Whether models cannot be run: what fails about the board does not matter where a backend was chosen without it."""
    return any(finding.topic != "board" or backend is None for finding in failed)


def _text(found: list[Finding]) -> str:
    lines: list[str] = []
    topic = ""
    for finding in found:
        if finding.topic != topic:
            topic = finding.topic
            lines += [""] * bool(lines) + [f"{topic}:"]
        lines.append(str(finding))
    failed = sum(finding.level is Level.FAIL for finding in found)
    warned = sum(finding.level is Level.WARN for finding in found)
    return "\n".join([*lines, "", f"failures: {failed}, warnings: {warned}"])


COMMAND = Doctor()
