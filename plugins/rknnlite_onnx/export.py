"""``rknnlite export-onnx``: a model as an ONNX file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rknnlite_graph.lowering import NETWORK_FORMS, Form
from rknnlite_insight import to_onnx

from rknnlite.files.writing import write_file
from rknnlite.formats import ModelFile
from rknnlite.spi.command import Command, Console, Exit

from .samples import add_sample_options, samples_of

__all__ = ["COMMAND"]

_TRIES = 2


class ExportOnnx(Command):
    """See the module."""

    name = "export-onnx"
    help = "write a model as an ONNX network"
    examples = (
        "rknnlite export-onnx model.rknn model.onnx",
        "rknnlite export-onnx model.rknn model.onnx --form qdq --normalise",
        "rknnlite export-onnx model.rknn model.onnx --batch 0",
    )
    common = ("--form", "--normalise", "--batch", "--pictures")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("model", type=Path, metavar="MODEL", help="the .rknn file")
        parser.add_argument("out", type=Path, metavar="OUT", help="the .onnx file to write")
        parser.add_argument(
            "--form",
            choices=[form.value for form in NETWORK_FORMS],
            default=Form.FLOAT.value,
            help="float: dequantised (default); qdq: float with the file's steps; fp16: tensors stored as float16; exact, "
            "exact-int8: the NPU's integers, carried in float32 or in 8 bits",
        )
        parser.add_argument(
            "--normalise",
            action="store_true",
            help="inputs are pixels: means and deviations are part of the graph",
        )
        parser.add_argument(
            "--batch",
            type=int,
            metavar="N",
            help="items in each run, 0 for any number; default: as the file has it",
        )
        parser.add_argument(
            "--tries",
            type=int,
            default=_TRIES,
            metavar="N",
            help=f"random inputs on which the network is compared with the CPU reference; default {_TRIES}, 0: none",
        )
        add_sample_options(parser, "compare on")

    def run(self, args: argparse.Namespace, console: Console) -> int:
        with console.progress("export-onnx"):
            data, lines = _written(args)
        console.report(data, "\n".join(lines))
        return Exit.OK


def _written(args: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    """The file, what it is and how far from the CPU reference."""
    network = to_onnx(args.model, args.form, args.normalise, args.batch)
    from .network import FIXED_SHAPE, NOT_WRITTEN  # behind to_onnx, which says what to install
    from .trial import tried

    samples = []
    if args.tries > 0:  # before anything is written: what is wrong with them leaves nothing behind
        samples = samples_of(ModelFile(args.model).model, args.pictures, args.bgr, args.tries)
    content = network.SerializeToString()
    write_file(args.out, content)
    told = {each.key: each.value for each in network.metadata_props}
    strange = told.pop(NOT_WRITTEN, "").splitlines()
    size, nodes = len(content), len(network.graph.node)
    told = {
        {"source": "model", "toolkit": "toolkit_version"}.get(key, key): value for key, value in told.items()
    }
    data = {"file": args.out, "bytes": size, "nodes": nodes, NOT_WRITTEN: strange, **told}
    lines = [f"{args.out}: {size} bytes, {nodes} nodes, form {args.form}"]
    lines += [f"in the domain rknnlite: {each}" for each in strange]
    if FIXED_SHAPE in told:
        lines.append(f"for one shape only: {told[FIXED_SHAPE]}")
    if samples:
        data["trial"] = trial = tried(
            network, args.model, Form(args.form), samples, args.normalise, args.batch
        )
        lines.append(str(trial))
    return data, lines


COMMAND = ExportOnnx()
