"""``rknnlite librknnrt``: what compilers and linkers are told; ``rknnlite exec``: run a program on the library."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from typing import NoReturn

from rknnlite._version import __version__
from rknnlite.spi.command import Command, Console, Exit

from . import build, flags
from .headers import include_dir

__all__ = ["COMMANDS"]

_ASKED = ("dir", "include_dir", "pkg_config_dir", "cflags", "libs")
"""Options in the order of their answers; headers come before libraries, as compilers want them."""
_NOT_FOUND, _NOT_A_PROGRAM = 127, 126
"""Exit codes of shells."""
_MISSING = (FileNotFoundError, NotADirectoryError)


class Librknnrt(Command):
    """See the module."""

    name = "librknnrt"
    help = "librknnrt.so and librknn3_api.so for programs in other languages: where they are, and what compilers are told"
    examples = (
        "rknnlite librknnrt",
        "cc program.c $(rknnlite librknnrt --cflags --libs) -o program",
        "cc host_program.c $(rknnlite librknnrt --rknn3 --cflags --libs) -o host_program",
        'LD_LIBRARY_PATH="$(rknnlite librknnrt --dir)" ./program',
        'PKG_CONFIG_PATH="$(rknnlite librknnrt --pkg-config-dir)" pkg-config --cflags --libs librknnrt-rknnlite',
    )

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--dir", action="store_true", help="the folder of the library, for LD_LIBRARY_PATH"
        )
        parser.add_argument("--include-dir", action="store_true", help="the folder of the headers")
        parser.add_argument("--cflags", action="store_true", help="what compilers are told: the headers")
        parser.add_argument("--libs", action="store_true", help="what linkers are told: the library")
        parser.add_argument(
            "--rknn3",
            action="store_true",
            help="librknn3_api.so for hosts of RK182x, which lies in the same folder",
        )
        parser.add_argument(
            "--pkg-config-dir",
            action="store_true",
            help=f"the folder of {flags.PACKAGE}.pc and {flags.RKNN3_PACKAGE}.pc, for PKG_CONFIG_PATH",
        )

    def run(self, args: argparse.Namespace, console: Console) -> int:
        asked = [name for name in _ASKED if getattr(args, name)]
        answers: dict[str, object] = {"include_dir": include_dir(), "cflags": flags.cflags()}
        if console.json or not asked or set(asked) - answers.keys():  # headers need no library
            both = args.dir or args.pkg_config_dir
            answers.update(_of_the_library(args.rknn3, both, args.pkg_config_dir))
        text = " ".join(str(answers[name]) for name in asked)
        console.report(
            answers, text or f"{answers['library']} ({answers['origin']}), starts {sys.executable}"
        )
        return Exit.OK


def _of_the_library(rknn3: bool, both: bool, pkg_config: bool) -> dict[str, object]:
    """What is known of librknnrt.so, or of librknn3_api.so; ``both``: the folder shall hold the two."""
    found = build.find()
    folder = found.file.parent
    other = build.rknn3_library(found) if rknn3 or both else found.file
    answers: dict[str, object] = {
        "library": other if rknn3 else found.file,
        "dir": folder,
        "libs": flags.libs(folder, rknn3),
        "origin": found.origin.value,
        "version": __version__,
        "interpreter": sys.executable,
    }
    if pkg_config:
        answers["pkg_config_dir"] = flags.write_pkg_config(folder)
    return answers


class Exec(Command):
    """See the module."""

    name = "exec"
    help = "run a program with librknnrt.so and librknn3_api.so of rknnlite in the place of the vendor's"
    examples = (
        "rknnlite exec -- ./program model.rknn picture.jpg",
        "rknnlite exec -- ctest --test-dir build",
    )
    rest = True

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("program", nargs="*", metavar="-- PROGRAM", help="the program and its arguments")

    def run(self, args: argparse.Namespace, console: Console) -> int:
        if not args.rest:
            console.note("exec: name a program: rknnlite exec -- ./program ARGUMENTS")
            return Exit.USAGE
        found = build.find(interpreter_is_named=True)
        build.rknn3_library(found)
        paths = [str(found.file.parent), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        environment = {"RKNNLITE_PYTHON": sys.executable, **os.environ, "LD_LIBRARY_PATH": ":".join(paths)}
        try:
            _become(args.rest, environment)
        except OSError as error:
            console.note(f"exec: {args.rest[0]}: {_why(args.rest[0], error)}")
            return _NOT_FOUND if isinstance(error, _MISSING) else _NOT_A_PROGRAM


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


COMMANDS = (Librknnrt(), Exec())
