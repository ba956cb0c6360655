"""``rknnlite compare --cause``: why the accuracy is gone, with figures, and which layers to keep in float16."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rknnlite.commandline.options import between, isolation, model_file, opening
from rknnlite.errors import ParamInvalid
from rknnlite.files.input_arrays import arrays_for
from rknnlite.formats.tensor_attrs import default_attr
from rknnlite.spi.command import Column, Console, Exit, Line, Part, Table, Tone

from ..causes import Cause, Diagnosis, Edge, diagnose
from ..causes.calibration import calibration_lines
from ..causes.quantization_cfg import write_layers
from ..causes.samples import network_inputs_of, sample_files, samples_of

__all__ = ["GUIDE", "add_cause_options", "find_cause"]

GUIDE = """Where did the accuracy go? SET is a folder of pictures or .npy files, or the converter's dataset.txt:
  1. rknnlite compare model.rknn model.onnx --pictures SET --cause    the cause by name, the layer, what to do
  2. ... --network-inputs FOLDER    what training fed for SET: are mean, deviation and colours right?
  3. ... --calibration dataset.txt  is the calibration set like SET, and which of it is odd?
  4. ... --hybrid                   layers to keep in float16 for the converter, tried, fewest first
  5. rknnlite compare new.onnx old.onnx picture.jpg    two versions of it: also new.rknn old.rknn"""
_ROWS = 12


def add_cause_options(parser: argparse.ArgumentParser) -> None:
    """``--cause`` and what belongs to it."""
    group = parser.add_argument_group("why the accuracy is gone")
    group.add_argument(
        "--cause",
        action="store_true",
        help="name the cause: errors per channel and per edge, and what each rounding does to the outputs",
    )
    group.add_argument(
        "--pictures",
        type=Path,
        metavar="SET",
        help="with --cause: many inputs, a folder with a file each or the converter's dataset.txt",
    )
    group.add_argument(
        "--network-inputs",
        type=Path,
        metavar="FOLDER",
        help="with --cause: what REFERENCE got for them in training, NCHW: a .npy each (.npz by name), in the same order",
    )
    group.add_argument(
        "--calibration",
        type=Path,
        metavar="SET",
        help="with --cause: what the converter was calibrated with, against the inputs and against each other",
    )
    group.add_argument(
        "--hybrid",
        type=between(float, -1, 1),
        nargs="?",
        const=0.999,
        metavar="COSINE",
        help="with --cause: try lists of layers in float16 until each output has this cosine (default: 0.999)",
    )
    group.add_argument(
        "--quantization-cfg",
        type=Path,
        metavar="FILE",
        help="with --hybrid: write the list into this file of hybrid_quantization_step1",
    )


def find_cause(args: argparse.Namespace, console: Console) -> int:
    """Run it and tell."""
    if args.plot or args.html or args.device or args.mode == "single" or args.quantisation or args.floating:
        raise ParamInvalid(
            "--cause has a report of its own: leave --mode, --plot, --html, --device, --quantisation and --float out"
        )
    if args.reference is None or args.reference.is_dir() or args.model.is_dir():
        raise ParamInvalid("--cause compares a .rknn file with the .onnx file that it was made of")
    if args.model.suffix.lower() == ".onnx":
        raise ParamInvalid(f"--cause judges a .rknn file, and {args.model} is none")
    model = model_file(args.model).model
    attrs = [default_attr(i, io, model.batch, True) for i, io in enumerate(model.inputs)]
    if args.pictures and args.inputs:
        raise ParamInvalid("give inputs or --pictures, not both")
    samples = (
        samples_of(args.pictures, attrs, args.bgr)
        if args.pictures
        else [arrays_for(args.inputs, attrs, args.bgr)]
    )
    shown = sample_files(args.calibration) if args.calibration else []
    calibration = [arrays_for(files, attrs, args.bgr) for files in shown]
    names = [io.name for io in model.inputs]
    given = network_inputs_of(args.network_inputs, names) if args.network_inputs else None
    with isolation(args), console.progress("compare") as progress:
        found = diagnose(
            args.model,
            args.reference,
            samples,
            network_inputs=given,
            layout=args.layout,
            hybrid=args.hybrid,
            calibration=calibration,
            progress=progress.to,
            **opening(args),
        )
    told = calibration_lines(found.calibration, [Path(files[0]).name for files in shown]) if shown else []
    if args.quantization_cfg and found.hybrid:
        unknown = write_layers(args.quantization_cfg, found.hybrid[-1].converter)
        left_out = f"; without {', '.join(unknown)}, which it does not have" if unknown else ""
        told = [*told, f"the list is in {args.quantization_cfg}{left_out}"]
    console.report({**cause_data(found), "notes": told}, *cause_parts(found, told))
    missed = args.min_cosine is not None and not found.cosine >= args.min_cosine
    if missed:
        console.note(f"the outputs' cosine {found.cosine:.5f} is below {args.min_cosine:g}")
    return Exit.BELOW if missed else Exit.OK


def cause_parts(found: Diagnosis, calibration: Sequence[str] = ()) -> list[Part]:
    """The edges that lose most, the steps that were tried, the verdict, and what a calibration set says."""
    samples = f"{found.samples} sample{'s' if found.samples > 1 else ''}"
    parts: list[Part] = [
        f"model: {found.model}",
        f"reference: {found.reference} on {samples}",
        "",
        _edges(found),
    ]
    parts += _hybrid(found) if found.hybrid else []
    parts += ["", Line(found.headline, Tone.GOOD if found.cause is Cause.NONE else Tone.BAD, 2)]
    parts += [Line(sentence, hang=2) for sentence in found.sentences]
    parts += [Line(f"-> {found.remedy}", hang=3)] if found.remedy else []
    parts += [Line(line, hang=2) for line in calibration]
    outputs = f"outputs: cosine {found.cosine:.5f}, {100 * found.outputs:.3g} % off"
    outputs = "outputs: infinities or NaN" if math.isnan(found.cosine) else outputs
    weights = "" if found.weights is None else f"; {100 * found.weights:.3g} % by the weights alone"
    return [*parts, Line(outputs + weights, hang=2)]


def _edges(found: Diagnosis) -> Table:
    columns = [
        Column("tensor", least=16),
        Column("alone, of outputs", True),
        Column("storing: dB", True),
        Column("worst channel", True),
        Column("layer: dB", True, drop=1),
        Column("worst channel", True, drop=2),
        Column("clipped", True, drop=3),
        Column("levels", True, drop=4),
    ]
    return Table(columns, [_row(name, edge, harm) for name, edge, harm in _told(found)])


def _told(found: Diagnosis) -> Iterator[tuple[str, Edge, float | None]]:
    """The edges that do most harm, or that lose most where nothing was tried."""
    harms = {name: harm.outputs for harm in found.harms for name in harm.tensors}
    names = sorted(found.edges, key=lambda name: (-harms.get(name, 0.0), -found.edges[name].error("lost")))
    for name in found.edges:  # in order of computation
        if name in names[:_ROWS]:
            yield name, found.edges[name], harms.get(name)


def _row(name: str, edge: Edge, harm: float | None) -> list[str]:
    levels = edge.levels[edge.heard]
    middle = sorted(levels)[len(levels) // 2] if len(levels) else 0.0
    return [
        f"[{'Input' if edge.about.role == 'input' else edge.about.op}] {name}",
        "-" if harm is None else f"{100 * harm:.3g} %",
        *map(_decibel, edge.decibels("lost")),
        *map(_decibel, edge.decibels("alone")),
        f"{100 * edge.clipped_share:.2g} %" if edge.about.scale else "-",
        f"{middle:.0f} of 255" if edge.about.scale else "-",
    ]


def _decibel(value: float) -> str:
    return f"{value:.1f}" if math.isfinite(value) else "exact" if value > 0 else "-"


def _hybrid(found: Diagnosis) -> list[Part]:
    columns = [
        Column("layers in float16", True),
        Column("cosine", True),
        Column("off", True),
        Column("added", least=16),
    ]
    rows = [
        [
            str(len(step.layers)),
            f"{step.cosine:.5f}",
            f"{100 * step.error:.3g} %",
            ", ".join(step.added) or "as the file is",
        ]
        for step in found.hybrid
    ]
    reached = found.hybrid[-1].cosine >= (found.target or 1.0)
    told = "" if reached else ": no more layers made it better"
    parts: list[Part] = ["", Line(f"tried{told}", Tone.HEAD, 2), Table(columns, rows)]
    last = found.hybrid[-1]
    if not last.layers:
        return parts
    parts += [
        "",
        Line(
            "for the .quantization.cfg of hybrid_quantization_step1 (names that it does not have are left out):",
            hang=2,
        ),
    ]
    return [*parts, "custom_quantize_layers:", *(f"    {name}: float16" for name in last.converter)]


def cause_data(found: Diagnosis) -> dict[str, Any]:
    """For programs; decibels are None where nothing is lost."""
    return {
        "model": found.model,
        "reference": found.reference,
        "samples": found.samples,
        "cause": found.cause.name.lower(),
        "headline": found.headline,
        "where": found.where,
        "also": [cause.name.lower() for cause in found.also],
        "lines": list(found.sentences),
        "remedy": found.remedy,
        "cosine": None if math.isnan(found.cosine) else found.cosine,
        "relative_error": None if math.isnan(found.cosine) else found.outputs,
        "weights_alone": found.weights,
        "tensors": [_edge_data(name, edge, found) for name, edge in found.edges.items()],
        "hybrid": [vars(step) for step in found.hybrid],
    }


def _edge_data(name: str, edge: Edge, found: Diagnosis) -> dict[str, Any]:
    harms = {each: harm.outputs for harm in found.harms for each in harm.tensors}
    return {
        "name": name,
        "op": edge.about.op,
        "alone_of_outputs": harms.get(name),
        "clipped": edge.clipped_share,
        "used": edge.used,
        "channels": [
            {"channel": int(number), "low": low, "high": high, "levels": levels, "lost": lost, "alone": alone}
            for number, low, high, levels, lost, alone in zip(
                edge.heard.nonzero()[0],
                edge.low[edge.heard].tolist(),
                edge.high[edge.heard].tolist(),
                edge.levels[edge.heard].tolist(),
                edge.errors("lost").tolist(),
                edge.errors("alone").tolist(),
            )
        ],
    }
