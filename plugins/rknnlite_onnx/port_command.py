"""``rknnlite port``: a model for another SoC, without the network that it was made of."""

from __future__ import annotations

import argparse
from pathlib import Path

from rknnlite.formats import ModelFile
from rknnlite.plugins import lowering
from rknnlite.socs import get
from rknnlite.spi.command import Command, Console, Exit

from .samples import add_sample_options, samples_of

__all__ = ["COMMAND"]

_MADE_UP = 8


class Port(Command):
    """See the module."""

    name = "port"
    help = "convert a model for another SoC, with its weights and steps"
    examples = (
        "rknnlite port model.rknn --to rk3576 --toolkit-python ~/toolkit/bin/python",
        "rknnlite port model.rknn --to rk3576 --toolkit-python ~/toolkit/bin/python --pictures samples -o port.rknn",
        "rknnlite port model.rknn --to rv1126b --toolkit-python ~/toolkit/bin/python --dtype fp16",
    )
    common = ("--pictures", "--out", "--dtype")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("model", type=Path, metavar="MODEL", help="the .rknn file")
        parser.add_argument("--to", required=True, metavar="SOC", help="the SoC to convert for, e.g. rk3576")
        parser.add_argument(
            "--toolkit-python",
            type=Path,
            required=True,
            metavar="PYTHON",
            help="Python of an environment that has the vendor's toolkit for PCs",
        )
        parser.add_argument(
            "-o",
            "--out",
            type=Path,
            metavar="FILE",
            help="the file to write; default: MODEL with the SoC in its name",
        )
        add_sample_options(parser, "calibrate with and compare on")
        parser.add_argument(
            "--dtype", choices=("fp16",), default="", help="fp16: give up the steps of an int8 file"
        )

    def run(self, args: argparse.Namespace, console: Console) -> int:
        soc = get(args.to).name
        out = args.out or args.model.with_name(f"{args.model.stem}.{soc}.rknn")
        samples = samples_of(ModelFile(args.model).model, args.pictures, args.bgr, _MADE_UP)
        lowering("onnx")  # says what to install
        from .port_report import ported

        with console.progress("port") as progress:
            found = ported(args.model, soc, out, args.toolkit_python, samples, args.dtype, progress.to)
        console.report(found, str(found))
        return Exit.OK


COMMAND = Port()
