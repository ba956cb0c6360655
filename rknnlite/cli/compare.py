"""``rknnlite compare``: where two runs of a network part: per tensor, as a table, a picture or a page."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..accuracy import Kind, Verdict, compare, judge
from ..accuracy.plot import need_figures
from ..errors import ParamInvalid
from ..files.input_arrays import arrays_for
from ..formats.tensor_attrs import default_attr
from ..spi.command import Command, Console, Exit
from .compare_page import page
from .compare_text import compare_parts
from .html_report import need_templates
from .options import (
    add_inputs,
    add_isolation,
    add_opening,
    between,
    isolation,
    model_file,
    opening,
    output_file,
)

__all__ = ["COMMAND"]


class Compare(Command):
    """See the module."""

    name = "compare"
    help = "accuracy analysis: distance of every tensor from a reference"
    examples = (
        "rknnlite compare model.rknn model.onnx picture.jpg --mode single",
        "rknnlite compare model.rknn model.onnx picture.jpg --quantisation",
        "rknnlite compare model.rknn model.onnx input.npy --html report.html --min-cosine 0.99",
        "rknnlite compare dump_of_a_board model.rknn input.npy --mode single",
        "rknnlite compare dump_of_one_run dump_of_another",
        "rknnlite compare model.rknn dump_of_a_simulator input.npy --float model.onnx",
    )

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "model", type=Path, metavar="MODEL", help="what is judged: .rknn, .onnx or a dump folder"
        )
        parser.add_argument(
            "reference", type=Path, metavar="REFERENCE", help="what it is judged by, likewise"
        )
        add_inputs(parser)
        parser.add_argument(
            "--mode", choices=("entire", "single"), default="entire", help="single: also every layer alone"
        )
        add_opening(parser)
        add_isolation(parser)
        parser.add_argument("--plot", type=Path, metavar="PNG", help="draw distances per layer (extra: plot)")
        parser.add_argument(
            "--html",
            type=Path,
            metavar="HTML",
            help="write a report in one self-contained file (extra: html)",
        )
        third = parser.add_mutually_exclusive_group()
        third.add_argument(
            "--quantisation",
            action="store_true",
            help="is it the quantisation? how much of the error goes away when MODEL's own layers are computed in float",
        )
        third.add_argument(
            "--float",
            type=Path,
            dest="floating",
            metavar="NETWORK",
            help="also how far both sides are from this network in float: the .onnx file, or the .rknn file itself",
        )
        parser.add_argument(
            "--min-cosine",
            type=between(float, -1, 1),
            metavar="X",
            help=f"exit with {int(Exit.BELOW)} when an output is below",
        )

    def run(self, args: argparse.Namespace, console: Console) -> int:
        for file in filter(None, (args.plot, args.html)):
            output_file(file)
        if args.plot:
            need_figures()  # what is missing is told before the work
        if args.html:
            need_templates()
        floating = _own_float(args.model) if args.quantisation else args.floating
        with isolation(args), console.progress("compare") as progress:
            found = compare(
                args.model,
                args.reference,
                _inputs(args),
                args.mode,
                layout=args.layout,
                floating=floating,
                plot=args.plot,
                progress=progress.to,
                **opening(args),
            )
        verdict = judge(found)
        if args.html:
            page(found, verdict).write(args.html)
        below = [
            t for t in found.outputs if args.min_cosine is not None and not t.entire.cosine >= args.min_cosine
        ]
        data = {
            "model": found.model, "reference": found.reference, "mode": found.mode, "tensors": found.tensors,
            "error_of": "runtime" if found.runtime else "model", "only_in_model": found.unmatched,
            "only_in_reference": found.missing, "floating": found.floating,
            "below": [tensor.name for tensor in below], "verdict": _verdict(verdict),
        }  # fmt: skip
        whole = console.room is None  # programs that read the manual's table go on to do so
        console.report(data, *compare_parts(found, verdict, whole, _hint(args, verdict)))
        for tensor in below:
            console.note(
                f"output {tensor.name}: cosine {tensor.entire.cosine:.5f} is below {args.min_cosine:g}"
            )
        return Exit.BELOW if below else Exit.OK


def _own_float(model: Path) -> Path:
    """The file whose layers are computed in float."""
    if model.suffix.lower() == ".onnx" or model.is_dir():
        raise ParamInvalid(
            f"--quantisation computes MODEL in float, and {model} is no .rknn file; for other sides there is --float"
        )
    return model


def _hint(args: argparse.Namespace, verdict: Verdict) -> str:
    """How to learn whether it is the quantisation, where that can be asked and was not."""
    asked = args.quantisation or args.floating or args.fidelity == "float"
    sides = args.model.suffix.lower(), args.reference.suffix.lower()
    if asked or verdict.farthest is None or verdict.kind is Kind.NOT_FINITE or sides != (".rknn", ".onnx"):
        return ""
    return "Is it the quantisation? --quantisation tells."


def _verdict(verdict: Verdict) -> dict[str, Any]:
    """For programs."""
    why = verdict.quantisation
    return {
        "kind": verdict.kind, "headline": verdict.headline, "lines": verdict.lines, "differing": verdict.differing,
        "farthest": verdict.farthest.tensor.name if verdict.farthest else None,
        "born": [layer.tensor.name for layer in verdict.born],
        "largest": [layer.tensor.name for layer in verdict.largest],
        "quantisation": {**vars(why), "share": why.share, "text": str(why)} if why else None,
    }  # fmt: skip


def _inputs(args: argparse.Namespace) -> Any:
    """Inputs in the form of the ``.rknn`` side; None where both sides are dumps."""
    sides = [side for side in (args.model, args.reference, args.floating) if side and not side.is_dir()]
    if not sides:
        return None
    models = [side for side in sides if side.suffix.lower() != ".onnx"]
    if not models:
        raise ParamInvalid(
            "one side must be a .rknn file or a dump of one: its inputs say what the ONNX file gets"
        )
    model = model_file(models[0]).model
    attrs = [default_attr(i, io, model.batch, True) for i, io in enumerate(model.inputs)]
    return arrays_for(args.inputs, attrs, args.bgr)


COMMAND = Compare()
