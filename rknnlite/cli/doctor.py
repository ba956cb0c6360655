"""``rknnlite doctor``: what is right and wrong with this machine, and one remedy per finding."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path
from typing import Any

from .. import libraries
from .._faces import vendor_files
from ..commandline.devices import DEVICE
from ..commandline.finding_output import finding_parts
from ..commandline.options import model_file
from ..commandline.readiness import ON_THE_CPU, not_ready, ready
from ..errors import ModelInvalid
from ..extras import EXTRAS
from ..formats import ModelFile
from ..native.board import ROOT, Board
from ..spi.command import Column, Command, Console, Exit, Line, Part, Table, Tone
from ..spi.finding import Finding, Level
from . import health
from .installed_plugins import installed
from .plugin_probe import leave_out_what_crashes

__all__ = ["COMMAND", "examine"]


def examine(board: Board, backend: str | None = None, model: Path | None = None) -> list[Finding]:
    """All findings, in the order in which a person would look; only the first where nothing else can be looked at."""
    if vendor_files.replaced():
        return list(health.packages())
    insight = _insight()
    found = [*health.packages(), *health.configuration()]
    if insight is not None:
        found += [*insight.kernel(board), *insight.speed(board)]
    found += [*health.backends(backend, board.soc()), *health.of_backends(board)]
    found += [_not_looked_at("the machine", Level.INFO)] if insight is None else insight.named()
    if model is None:
        return found
    try:
        file = model_file(model)
    except ModelInvalid as error:
        return [*found, Finding("model", Level.FAIL, str(error), "name a model file that can be read")]
    return [*found, *_of_the_model(insight, file, board, backend)]


def _insight() -> Any:
    """The checks of machine, boards and models; None where the library is not installed."""
    return importlib.import_module("rknnlite_insight.health") if libraries.is_there("insight") else None


def _of_the_model(insight: Any, file: ModelFile, board: Board, backend: str | None) -> list[Finding]:
    if insight is None:
        return [_not_looked_at("the model", Level.WARN)]
    return list(insight.model(file, board, backend))


def _not_looked_at(what: str, level: Level) -> Finding:
    error = libraries.missing_library("insight", f"nothing here looks at {what}")
    return Finding(what.rpartition(" ")[2], level, *str(error).split("; ", 1))


class Doctor(Command):
    """See the module."""

    name = "doctor"
    help = "what is wrong with this installation, and what to do about it"
    examples = (
        "rknnlite doctor",
        "rknnlite doctor model.rknn --backend rknnrt",
        "rknnlite doctor model.rknn --device board:8001",
        "rknnlite doctor --report report.txt",
        "rknnlite doctor --try-npu",
    )

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "model", nargs="?", type=Path, metavar="MODEL", help="also: does this model go with it?"
        )
        parser.add_argument("--backend", metavar="NAME", help="the backend that is wanted")
        parser.add_argument("--device", metavar="NAME", help=f"look at another machine instead: {DEVICE}")
        parser.add_argument(
            "--try-npu", action="store_true", help="run small models without the vendor's library"
        )
        parser.add_argument(
            "--report", metavar="FILE", help="write a text for a bug report, without secrets; -: to stdout"
        )
        parser.add_argument("--root", type=Path, default=ROOT, metavar="FOLDER", help=argparse.SUPPRESS)

    def run(self, args: argparse.Namespace, console: Console) -> int:
        if args.report:
            libraries.library("insight")  # which writes it
            _insight().check_place(args.report)
        if not vendor_files.replaced():
            with console.progress("doctor"):
                leave_out_what_crashes()
        if args.device:
            look_afar = libraries.library("insight").look_afar
            return int(look_afar(args.device, args.backend, args.model, console))
        if args.try_npu:
            return int(libraries.library("npu").try_npu(args.model, console))
        board = Board(args.root)
        with console.progress("doctor"):
            found = examine(board, args.backend, args.model)
        failed = [finding for finding in found if finding.level is Level.FAIL]
        data = {"healthy": not failed, "findings": found}
        stops = _stops(failed, args.backend)
        verdict = _verdict(found, failed if stops else [], args.backend, board)
        if args.report:
            insight = _insight()
            insight.write_report(args.report, insight.report_text(board, found, verdict, installed()))
            if args.report != "-":
                console.note(f"{args.report} is written; read it before you pass it on")
                console.report({**data, "report": args.report}, verdict)
            return Exit.UNAVAILABLE if stops else Exit.OK
        warned = sum(finding.level is Level.WARN for finding in found)
        counted = f"failures: {len(failed)}, warnings: {warned}"
        console.report(
            data, *finding_parts(found, list(health.extras())), *_lacking_parts(), "", counted, verdict
        )
        return Exit.UNAVAILABLE if stops else Exit.OK


def _verdict(found: list[Finding], failed: list[Finding], backend: str | None, board: Board) -> Line:
    """What models run on; ``failed`` is what keeps them from it."""
    if vendor_files.replaced():  # nothing of ours may be asked then
        return not_ready(failed[0].text)
    warned = sum(finding.level is Level.WARN for finding in found)
    verdict = ready(backend, board.soc(), warned)
    if not failed:
        return verdict
    meanwhile = failed[0].topic == "board" and verdict.text.startswith(ON_THE_CPU)
    rest = "; until then models run on the CPU reference" if meanwhile else ""
    return not_ready(f"{failed[0].text}{rest}")


def _stops(failed: list[Finding], backend: str | None) -> bool:
    """Whether models cannot be run: what fails about the board does not matter where a backend was chosen without it."""
    return any(finding.topic != "board" or backend is None for finding in failed)


def _lacking_parts() -> list[Part]:
    """Extras that are not installed: they take a line each, after the findings."""
    if not any(health.extras()):
        return []
    return ["", Line("not installed, if you need it:", Tone.HEAD), _extras()]


def _extras() -> Table:
    columns = (
        Column("extra"),
        Column("for", least=12, drop=1),
        Column("lacks", least=8),
        Column("pip install", least=8),
        Column("apt install", least=8, drop=2),
    )
    rows = [
        [
            extra.name,
            extra.purpose,
            ", ".join(extra.lacking),
            extra.wanted,
            " ".join(extra.debian),
        ]
        for extra in EXTRAS.values()
        if extra.lacking
    ]
    return Table(columns, rows)


COMMAND = Doctor()
