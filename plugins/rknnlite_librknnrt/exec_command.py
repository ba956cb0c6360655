"""``rknnlite exec``: run a program on the libraries."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

from rknnlite_backend.library import DIRECTORIES, is_file

from rknnlite import config
from rknnlite.spi.command import Command, Console, Exit

from . import build, played_board, recipe

__all__ = ["COMMAND"]

_NOT_FOUND, _NOT_A_PROGRAM = 127, 126
"""Exit codes of shells."""
_OF_RKLLM = ("rkllm_model", "rkllm_version")
_MISSING = (FileNotFoundError, NotADirectoryError)


class Exec(Command):
    """See the module."""

    name = "exec"
    help = "run a program with our libraries in the place of the vendor's"
    examples = (
        "rknnlite exec -- ./program model.rknn picture.jpg",
        "rknnlite exec -- ctest --test-dir build",
        "rknnlite exec --soc rk3588 -- python app.py",
        "RKNNLITE_RKLLM_MODEL=qwen3.gguf rknnlite exec -- python flask_server.py --rkllm_model_path qwen3.rkllm",
    )
    rest = True

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--soc", metavar="NAME", help="play a board with this SoC to the program and its children"
        )
        parser.add_argument("program", nargs="*", metavar="-- PROGRAM", help="the program and its arguments")

    def run(self, args: argparse.Namespace, console: Console) -> int:
        if not args.rest:
            console.note("exec: name a program: rknnlite exec -- ./program ARGUMENTS")
            return Exit.USAGE
        soc = played_board.playable(args.soc) if args.soc else None
        found = build.find(interpreter_is_named=True)
        for name in recipe.IN_ONE_FOLDER[1:]:
            build.beside(found, name)
        rkllm = build.rkllm_library(found)
        paths = [
            str(found.file.parent),
            str(rkllm.parent),
            *_stand_ins(found),
            *filter(None, [os.environ.get("LD_LIBRARY_PATH")]),
        ]
        environment = {"RKNNLITE_PYTHON": sys.executable, **os.environ, "LD_LIBRARY_PATH": ":".join(paths)}
        if build.can_audit() or any(map(config.get, _OF_RKLLM)):
            environment["LD_AUDIT"] = ":".join([str(rkllm), *filter(None, [os.environ.get("LD_AUDIT")])])
        if soc is not None:
            environment.update(played_board.environment(soc, found, environment))
            console.note(f"exec: {played_board.told(soc)}")
        try:
            _become(args.rest, environment)
        except OSError as error:
            console.note(f"exec: {args.rest[0]}: {_why(args.rest[0], error)}")
            return _NOT_FOUND if isinstance(error, _MISSING) else _NOT_A_PROGRAM


def _stand_ins(found: build.Found) -> list[str]:
    """The folder of what stands for libraries of the board's, where this machine has none of these."""
    names = recipe.BOARD_LIBRARIES
    if any(is_file(Path(folder) / Path(name).name) for folder in DIRECTORIES for name in names):
        return []
    return sorted({str(build.beside(found, name).parent) for name in names})


def _why(program: str, error: OSError) -> str:
    """What is wrong with a program, and what to do about it."""
    if not isinstance(error, _MISSING):
        return f"{error.strerror}; it must be a program of this machine, with the right to be executed"
    if os.path.isfile(program):  # noqa: PTH113
        return "the interpreter or dynamic linker that it names is not there; run it on the machine it was made for"
    return "there is no such program; give its path (./program), or a name on PATH"


def _become(words: list[str], environment: dict[str, str]) -> NoReturn:
    """Replace this process. The signals that Python ignores do again what programs expect. Raises OSError."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    ignored = [signal.SIGPIPE, signal.SIGXFSZ]
    before = [signal.signal(number, signal.SIG_DFL) for number in ignored]
    try:
        os.execvpe(words[0], words, environment)
    finally:  # it is still this program
        for number, handler in zip(ignored, before):
            signal.signal(number, handler)


COMMAND = Exec()
