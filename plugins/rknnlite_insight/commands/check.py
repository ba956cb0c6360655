"""``rknnlite check``: whether model files are what a repository should hold, one line each; for CI and pre-commit."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from rknnlite_graph.inspection import Operators

from rknnlite import socs
from rknnlite.commandline.options import model_file
from rknnlite.errors import RknnError
from rknnlite.files.input_arrays import made_up
from rknnlite.formats import Model, ModelFile, is_package
from rknnlite.runtime import open_model
from rknnlite.spi.command import Command, Console, Exit

__all__ = ["COMMAND"]

_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?(|k|M|G|Ki|Mi|Gi)B?")


def _size(text: str) -> int:
    """``20MB``, ``500 kB``, ``1.5GiB`` or bytes, for argparse."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; give 20MB, 500kB, 16MiB or a number of bytes")
    return int(float(match[1]) * _UNITS[match[2]])


def _names(text: str) -> list[str]:
    """``rk3588,rk3576``, for argparse; names are looked up later, with an error of their own."""
    return [name.strip() for name in text.split(",") if name.strip()]


@dataclass
class _Found:
    """What is known of one file when it has been looked at; ``problems`` is empty when nothing is wrong."""

    model: str
    problems: list[str]
    bytes: int = 0
    runs_on: tuple[str, ...] = ()
    run_us: Optional[int] = None
    board_only: str = ""
    """Why only a board runs it; empty where the CPU reference does, too."""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def __str__(self) -> str:
        if self.problems:
            return f"{self.model}: wrong: {'; '.join(self.problems)}"
        ran = f", ran on the CPU reference in {self.run_us / 1000:.0f} ms" if self.run_us is not None else ""
        place = f"; {self.board_only.partition('; ')[0]}" if self.board_only else ""
        return f"{self.model}: fine, {'/'.join(self.runs_on) or 'language model'}, {self.bytes} bytes{ran}{place}"


class Check(Command):
    """See the module."""

    name = "check"
    help = "whether model files are readable, of a SoC and a size; for CI"
    examples = (
        "rknnlite check models/*.rknn",
        "rknnlite check --soc rk3588,rk3576 --max-size 50MB --run models/*.rknn",
    )

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "models", nargs="+", type=Path, metavar="MODEL", help=".rknn files, or language model packages"
        )
        parser.add_argument(
            "--soc",
            type=_names,
            default=[],
            metavar="NAMES",
            help="SoCs, e.g. rk3588,rk3576; a network that runs on none of them is wrong",
        )
        parser.add_argument(
            "--max-size", type=_size, metavar="SIZE", help="e.g. 50MB or 16MiB; a larger file is wrong"
        )
        parser.add_argument(
            "--run", action="store_true", help="run each network once on the CPU reference, on made-up data"
        )

    def run(self, args: argparse.Namespace, console: Console) -> int:
        wanted = {socs.get(name).name.upper() for name in args.soc}
        wrong = False
        with console.progress("check", len(args.models)) as progress:
            for path in args.models:
                found = _look(path, wanted, args.max_size, args.run)
                wrong |= not found.ok
                console.report({"ok": found.ok, **vars(found)}, str(found))
                progress.step(item=str(path))
        return Exit.MODEL if wrong else Exit.OK


def _look(path: Path, wanted: set[str], max_size: int | None, run: bool) -> _Found:
    found = _Found(str(path), [])
    try:
        file = model_file(path)
        found.bytes = len(file.data)
        if max_size is not None and found.bytes > max_size:
            found.problems.append(f"{found.bytes} bytes are more than the {max_size} that are allowed")
        if is_package(file.data):
            from rknnlite_llm.checksums import check_beside
            from rknnlite_llm.package import Package

            check_beside(file, Package.of(path), weights=True)
            return found
        found.runs_on = tuple(file.model.runs_on)
        found.board_only = file.model.board_only
        found.problems += _of_the_model(file.model, found.runs_on, wanted)
        if run and found.ok:
            found.run_us = _run(file)
    except RknnError as error:
        text = str(error)
        found.problems.append(text[len(f"{path}: ") :] if text.startswith(f"{path}: ") else text)
    return found


def _of_the_model(model: Model, socs_of_it: tuple[str, ...], wanted: set[str]) -> Iterator[str]:
    if not socs_of_it:
        yield f"it is for {'/'.join(model.platforms or (model.platform,)) or 'no SoC'}, which is no SoC known here"
    elif wanted and not wanted & set(socs_of_it):
        yield f"it runs on {'/'.join(socs_of_it)}, not on {'/'.join(sorted(wanted))}"
    problem = Operators.of(model).problem
    if problem and not model.board_only:
        yield f"the graph cannot be read: {problem}"


def _run(file: ModelFile) -> int:
    """Microseconds of one run; a node that nobody knows is an error before it begins."""
    with open_model(file, backend="cpu") as context:
        context.infer([made_up(attr) for attr in context.inputs])
        return context.last_run_us


COMMAND = Check()
