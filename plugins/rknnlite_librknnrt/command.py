"""``rknnlite librknnrt``: what compilers and linkers are told."""

from __future__ import annotations

import argparse
import sys

from rknnlite._version import __version__
from rknnlite.spi.command import Command, Console, Exit

from . import build, flags
from .headers import include_dir

__all__ = ["COMMAND"]

_ASKED = ("dir", "include_dir", "pkg_config_dir", "cflags", "libs")
"""Options in the order of their answers; headers come before libraries, as compilers want them."""


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


COMMAND = Librknnrt()
