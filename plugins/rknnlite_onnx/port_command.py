"""``rknnlite port``: a model for another SoC, without the network that it was made of."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rknnlite.errors import InputInvalid
from rknnlite.files.input_arrays import arrays_for, made_up
from rknnlite.formats import Model, ModelFile
from rknnlite.formats.tensor_attrs import default_attr
from rknnlite.plugins import lowering
from rknnlite.socs import get
from rknnlite.spi.command import Command, Console, Exit

__all__ = ["COMMAND"]

_MADE_UP = 8


class Port(Command):
    """See the module."""

    name = "port"
    help = "convert a model for another SoC by the vendor's toolkit, with its own weights and steps"
    examples = (
        "rknnlite port model.rknn --to rk3576 --toolkit-python ~/toolkit/bin/python",
        "rknnlite port model.rknn --to rk3576 --toolkit-python ~/toolkit/bin/python --pictures samples -o port.rknn",
        "rknnlite port model.rknn --to rv1126b --toolkit-python ~/toolkit/bin/python --dtype fp16",
    )

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
        parser.add_argument(
            "--pictures",
            type=Path,
            metavar="FOLDER",
            help="samples, one file each (pictures, .npy; .npz for several inputs); default: random ones",
        )
        parser.add_argument("--bgr", action="store_true", help="pictures stay as OpenCV reads them; else RGB")
        parser.add_argument(
            "--dtype", choices=("fp16",), default="", help="fp16: give up the steps of an int8 file"
        )

    def run(self, args: argparse.Namespace, console: Console) -> int:
        soc = get(args.to).name
        out = args.out or args.model.with_name(f"{args.model.stem}.{soc}.rknn")
        samples = _samples(ModelFile(args.model).model, args.pictures, args.bgr)
        lowering("onnx")  # says what to install
        from .port_report import ported

        with console.progress("port") as progress:
            found = ported(args.model, soc, out, args.toolkit_python, samples, args.dtype, progress.to)
        console.report(found, str(found))
        return Exit.OK


def _samples(model: Model, folder: Path | None, bgr: bool) -> list[list[Any]]:
    """Arrays for the inputs, a list per sample."""
    attrs = [default_attr(i, io, model.batch, True) for i, io in enumerate(model.inputs)]
    if folder is None:
        return [[made_up(attr, number) for attr in attrs] for number in range(_MADE_UP)]
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    if not files:
        raise InputInvalid(f"{folder} has no files; put pictures or .npy files there")
    return [arrays_for([str(path)], attrs, bgr) for path in files]


COMMAND = Port()
