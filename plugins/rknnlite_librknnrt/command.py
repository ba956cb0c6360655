"""``rknnlite librknnrt``: what compilers and linkers are told."""

from __future__ import annotations

import argparse
import sys
from typing import Optional

from rknnlite._version import __version__
from rknnlite.spi.command import Command, Console, Exit

from . import build, flags, recipe
from .headers import include_dir, rkllm_include_dir, rknn1_include_dir

__all__ = ["COMMAND"]

_ASKED = ("dir", "include_dir", "pkg_config_dir", "cflags", "libs")
"""Options in the order of their answers; headers come before libraries, as compilers want them."""


class Librknnrt(Command):
    """See the module."""

    name = "librknnrt"
    help = "librknnrt.so and its like for programs in other languages"
    examples = (
        "rknnlite librknnrt",
        "cc program.c $(rknnlite librknnrt --cflags --libs) -o program",
        "cc host_program.c $(rknnlite librknnrt --rknn3 --cflags --libs) -o host_program",
        "cc llm_demo.c $(rknnlite librknnrt --rkllm 1.2.3 --cflags --libs) -o llm_demo",
        'LD_LIBRARY_PATH="$(rknnlite librknnrt --dir)" ./program',
        'PKG_CONFIG_PATH="$(rknnlite librknnrt --pkg-config-dir)" pkg-config --cflags --libs librknnrt-rknnlite',
    )
    common = ("--dir", "--include-dir", "--cflags", "--libs", "--rkllm")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--dir", action="store_true", help="the folder of the library, for LD_LIBRARY_PATH"
        )
        parser.add_argument("--include-dir", action="store_true", help="the folder of the headers")
        parser.add_argument("--cflags", action="store_true", help="what compilers are told: the headers")
        parser.add_argument("--libs", action="store_true", help="what linkers are told: the library")
        parser.add_argument(
            "--mini",
            action="store_true",
            help="librknnmrt.so for RV1103 and RV1106, which lies in the same folder",
        )
        parser.add_argument(
            "--rknn1",
            action="store_true",
            help="librknn_api.so for programs of toolkits 1.x (RK1808, RV1126), which lies in the same folder, and its header",
        )
        parser.add_argument(
            "--rknn3",
            action="store_true",
            help="librknn3_api.so for hosts of RK182x, which lies in the same folder",
        )
        parser.add_argument(
            "--rkllm",
            nargs="?",
            const="",
            metavar="VERSION",
            help="librkllmrt.so for programs with language models, in a folder of its own for each version of its API; without "
            "VERSION that of RKNNLITE_RKLLM_VERSION, else the latest",
        )
        parser.add_argument(
            "--pkg-config-dir",
            action="store_true",
            help=f"the folder of {flags.PACKAGE}.pc, {flags.MINI_PACKAGE}.pc and {flags.RKNN3_PACKAGE}.pc, for PKG_CONFIG_PATH",
        )

    def run(self, args: argparse.Namespace, console: Console) -> int:
        asked = [name for name in _ASKED if getattr(args, name)]
        version = None if args.rkllm is None else build.rkllm_version(args.rkllm)
        headers = rknn1_include_dir() if args.rknn1 else include_dir()
        headers = headers if version is None else rkllm_include_dir(version)
        answers: dict[str, object] = {"include_dir": headers, "cflags": flags.cflags(headers)}
        if console.json or not asked or set(asked) - answers.keys():  # headers need no library
            both = args.dir or args.pkg_config_dir
            answers.update(_of_the_library(_wanted(args), both, args.pkg_config_dir, version))
        text = " ".join(str(answers[name]) for name in asked)
        console.report(
            answers, text or f"{answers['library']} ({answers['origin']}), starts {sys.executable}"
        )
        return Exit.OK


def _wanted(args: argparse.Namespace) -> str:
    """Which library of the folder is asked for."""
    named = {
        recipe.MINI_LIBRARY: args.mini,
        recipe.RKNN1_LIBRARY: args.rknn1,
        recipe.RKNN3_LIBRARY: args.rknn3,
    }
    return next((library for library, asked in named.items() if asked), recipe.LIBRARY)


def _of_the_library(
    wanted: str, all_of_them: bool, pkg_config: bool, rkllm: Optional[str]
) -> dict[str, object]:
    """What is known of one of the libraries in one folder, or of librkllmrt.so of a version; ``all_of_them`` shall be there."""
    found = build.find()
    library = found.file if wanted == recipe.LIBRARY else build.beside(found, wanted)
    for name in (*recipe.IN_ONE_FOLDER[1:], *recipe.BOARD_LIBRARIES) if all_of_them else ():
        build.beside(found, name)
    if rkllm is not None:
        library = build.rkllm_library(found, rkllm)
    folder = library.parent
    answers: dict[str, object] = {
        "library": library,
        "dir": folder,
        "libs": flags.libs(library),
        "origin": found.origin.value,
        "version": __version__,
        "interpreter": sys.executable,
    }
    if pkg_config:
        answers["pkg_config_dir"] = flags.write_pkg_config(found.file.parent)
    return answers


COMMAND = Librknnrt()
