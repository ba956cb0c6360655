"""``rknnlite new-plugin``: a package with an operator, its build, its tests and its packaging; where the headers lie."""

from __future__ import annotations

import argparse
from pathlib import Path

from rknnlite.abi import include_dir
from rknnlite.errors import ParamInvalid
from rknnlite.spi.command import Command, Console, Exit

from .package import KINDS, write_package

__all__ = ["COMMAND"]


class NewPlugin(Command):
    """See the module."""

    name = "new-plugin"
    help = "write a package with an operator of your own, and its tests"
    examples = (
        "rknnlite new-plugin sharpen --kind c",
        'cc -shared -fPIC -I"$(rknnlite new-plugin --print-include)" -o librkcst_mine.so mine.c',
    )

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "name", nargs="?", metavar="NAME", help="what it is called: small letters, digits, _"
        )
        parser.add_argument("--kind", choices=sorted(KINDS), help="what the operator is written in")
        parser.add_argument(
            "--output",
            type=Path,
            default=Path(),
            metavar="FOLDER",
            help="where the folder rknnlite_NAME is made (default: here)",
        )
        parser.add_argument(
            "--print-include",
            action="store_true",
            help="only print the folder with rknn_op.h and rknn3_op.h, for a C compiler's -I",
        )

    def run(self, args: argparse.Namespace, console: Console) -> int:
        if args.print_include:
            console.report({"include": include_dir()}, str(include_dir()))
            return Exit.OK
        if args.name is None or args.kind is None:
            raise ParamInvalid(f"give a NAME and --kind {'|'.join(sorted(KINDS))}, or --print-include")
        folder, files = write_package(args.name, args.kind, args.output)
        text = "\n".join(["wrote", *(f"  {folder / file}" for file in files), f"next: make -C {folder} test"])
        console.report({"folder": folder, "files": files}, text)
        return Exit.OK


COMMAND = NewPlugin()
