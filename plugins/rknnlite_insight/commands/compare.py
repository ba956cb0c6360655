"""``rknnlite compare``: where two runs of a network part: per tensor, as a table, a picture or a page."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from rknnlite_graph.coarse_multipliers import CoarseLayer, coarse_data, coarse_of
from rknnlite_pages.report import need_templates

from rknnlite import plugins
from rknnlite.commandline.devices import is_afar, place_of_run
from rknnlite.commandline.options import (
    add_inputs,
    add_isolation,
    add_opening,
    between,
    isolation,
    model_file,
    opening,
    output_file,
)
from rknnlite.errors import ParamInvalid
from rknnlite.files.input_arrays import arrays_for
from rknnlite.formats.tensor_attrs import default_attr
from rknnlite.runtime import open_model
from rknnlite.spi import Context
from rknnlite.spi.command import Command, Console, Exit

from .. import Comparison, Kind, TensorError, Verdict, compare, compare_ways, judge
from ..onnx_inputs import as_network, onnx_inputs
from ..plot import need_figures
from .compare_cause import GUIDE, add_cause_options, find_cause
from .compare_page import page
from .compare_text import coarse_lines, compare_parts

__all__ = ["COMMAND"]


class Compare(Command):
    """See the module."""

    name = "compare"
    help = "accuracy analysis: distance of every tensor from a reference"
    examples = (
        "rknnlite compare model.rknn model.onnx picture.jpg --mode single",
        "rknnlite compare model.rknn model.onnx picture.jpg --quantisation",
        "rknnlite compare model.rknn model.onnx input.npy --html report.html --min-cosine 0.99",
        "rknnlite compare model.rknn model.onnx picture.jpg --mode single --device board:8001",
        "rknnlite compare dump_of_a_board model.rknn input.npy --mode single",
        "rknnlite compare dump_of_one_run dump_of_another",
        "rknnlite compare model.rknn dump_of_a_simulator input.npy --float model.onnx",
        "rknnlite compare model.rknn picture.jpg --ways",
        "rknnlite compare model.rknn model.onnx --pictures dataset.txt --cause --hybrid 0.99",
    )
    common = ("--mode", "--quantisation", "--min-cosine", "--cause", "--html", "--device")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.description = f"{self.help[:1].upper()}{self.help[1:]}.\n\n{GUIDE}"
        parser.add_argument(
            "model", type=Path, metavar="MODEL", help="what is judged: .rknn, .onnx or a dump folder"
        )
        parser.add_argument(
            "reference", type=Path, metavar="REFERENCE", nargs="?", help="what it is judged by, likewise"
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
        third.add_argument(
            "--ways",
            action="store_true",
            help="MODEL alone, without a REFERENCE: in float, as the simulator, as a chip and by the machine, side by side",
        )
        parser.add_argument(
            "--min-cosine",
            type=between(float, -1, 1),
            metavar="X",
            help=f"exit with {int(Exit.BELOW)} when an output is below",
        )
        add_cause_options(parser)

    def run(self, args: argparse.Namespace, console: Console) -> int:
        if args.ways:
            return _ways(args, console)
        if args.cause:
            return find_cause(args, console)
        if (
            any((args.pictures, args.network_inputs, args.calibration, args.quantization_cfg))
            or args.hybrid is not None
        ):
            raise ParamInvalid(
                "--pictures, --network-inputs, --calibration, --hybrid and --quantization-cfg belong to --cause"
            )
        if args.reference is None:
            raise ParamInvalid("a REFERENCE is missing; with --ways MODEL is compared with itself")
        for file in filter(None, (args.plot, args.html)):
            output_file(file)
        if args.plot:
            need_figures()  # what is missing is told before the work
        if args.html:
            need_templates()
        floating = _own_float(args.model) if args.quantisation else args.floating
        with ExitStack() as stack, isolation(args), console.progress("compare") as progress:
            board = stack.enter_context(_on_board(args)) if args.device else None
            found = compare(
                args.model,
                args.reference,
                _inputs(args),
                args.mode,
                layout=args.layout,
                reference_inputs=_network_inputs(args),
                floating=floating,
                board=board,
                plot=args.plot,
                progress=progress.to,
                **(_simulator(args) if board else opening(args)),
            )
            if board and found.board:
                found = replace(found, board=replace(found.board, title=place_of_run(board, args.device)))
        verdict = judge(found)
        coarse = _coarse(args)
        there = judge(found.on_board) if found.on_board and found.on_board.tensors else None
        if args.html:
            page(found, verdict, there, coarse_lines(coarse)).write(args.html)
        below = list(_below(found, args.min_cosine))
        data = {
            "model": found.model,
            "reference": found.reference,
            "mode": found.mode,
            "tensors": found.tensors,
            "error_of": "runtime" if found.runtime else "model",
            "only_in_model": found.unmatched,
            "only_in_reference": found.missing,
            "floating": found.floating,
            "below": [tensor.name for tensor, _, _ in below],
            "verdict": _verdict(verdict),
            "coarse_multipliers": coarse_data(coarse),
            "device": args.device,
            "board": found.board,
            "board_verdict": _verdict(there) if there else None,
        }
        whole = console.room is None  # programs that read the manual's table go on to do so
        parts = compare_parts(found, verdict, whole, _hint(args, verdict), there, coarse_lines(coarse))
        console.report(data, *parts)
        for tensor, cosine, where in below:
            console.note(f"output {tensor.name}: cosine {cosine:.5f}{where} is below {args.min_cosine:g}")
        return Exit.BELOW if below else Exit.OK


def _ways(args: argparse.Namespace, console: Console) -> int:
    """MODEL in every way that it can be computed; what follows it are inputs."""
    from .compare_ways import ways_data, ways_parts

    if args.plot or args.html or args.device or args.mode == "single":
        raise ParamInvalid(
            "--ways has a table of its own: leave --plot, --html, --device and --mode single out"
        )
    if args.model.suffix.lower() == ".onnx" or args.model.is_dir():
        raise ParamInvalid(f"--ways computes a .rknn file, and {args.model} is none")
    args.inputs = [*([str(args.reference)] if args.reference else []), *args.inputs]
    args.reference = None
    options = opening(args)
    for name in ("backend", "fidelity", "inputs"):
        options.pop(name, None)
    with isolation(args), console.progress("compare") as progress:
        found = compare_ways(args.model, _inputs(args), args.layout, progress.to, **options)
    console.report(ways_data(found), *ways_parts(found))
    return Exit.OK


def _on_board(args: argparse.Namespace) -> Context:
    """MODEL as it is opened on the device."""
    if args.model.suffix.lower() == ".onnx" or args.model.is_dir():
        raise ParamInvalid(f"--device runs MODEL on a board, and {args.model} is no .rknn file")
    options = opening(args)
    options.pop("fidelity", None)  # the simulator's
    if is_afar(plugins.backend(options["backend"])):
        options["custom_ops"] = ()  # a machine from afar has its own
    return open_model(model_file(args.model), **options)


def _simulator(args: argparse.Namespace) -> dict[str, Any]:
    """How MODEL is opened beside a board: on the CPU reference of this machine."""
    return opening(argparse.Namespace(**{**vars(args), "device": None, "backend": "cpu"}))


def _coarse(args: argparse.Namespace) -> list[CoarseLayer]:
    """Layers of the file that is compared whose channels lose their scale: of both sides where both are files."""
    files = [
        side for side in (args.model, args.reference) if side.suffix.lower() != ".onnx" and not side.is_dir()
    ]
    return list(dict.fromkeys(layer for file in files for layer in coarse_of(model_file(file).model)))


def _below(found: Comparison, least: float | None) -> Iterator[tuple[TensorError, float, str]]:
    """Outputs whose cosine is too small, here or on the board, and where."""
    if least is None:
        return
    for tensor in found.outputs:
        for distance, where in ((tensor.entire, ""), (tensor.runtime_entire, " on the board")):
            if distance is not None and not distance.cosine >= least:
                yield tensor, distance.cosine, where


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
        "kind": verdict.kind,
        "headline": verdict.headline,
        "lines": verdict.lines,
        "differing": verdict.differing,
        "farthest": verdict.farthest.tensor.name if verdict.farthest else None,
        "born": [layer.tensor.name for layer in verdict.born],
        "largest": [layer.tensor.name for layer in verdict.largest],
        "quantisation": {**vars(why), "share": why.share, "text": str(why)} if why else None,
    }


def _inputs(args: argparse.Namespace) -> Any:
    """Inputs in the form of the ``.rknn`` side; None where no side is one."""
    sides = [side for side in (args.model, args.reference, args.floating) if side and not side.is_dir()]
    models = [side for side in sides if side.suffix.lower() != ".onnx"]
    if not models:
        return None
    model = model_file(models[0]).model
    attrs = [default_attr(i, io, model.batch, True) for i, io in enumerate(model.inputs)]
    return arrays_for(args.inputs, attrs, args.bgr)


def _network_inputs(args: argparse.Namespace) -> dict[str, Any] | None:
    """What two ONNX files get: the inputs as they are, in the networks' own layout."""
    if any(side.suffix.lower() != ".onnx" for side in (args.model, args.reference)):
        return None
    attrs = onnx_inputs(args.reference)
    arrays = arrays_for(args.inputs, attrs, args.bgr)
    return {attr.name: as_network(array, attr, args.layout) for attr, array in zip(attrs, arrays)}


COMMAND = Compare()
