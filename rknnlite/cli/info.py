"""``rknnlite info``: what a model file says about itself. No backend is asked and nothing is run."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Union

from .. import plugins
from ..commandline.options import model_file
from ..errors import RknnError
from ..formats import Model, ModelFile, is_package
from ..formats.rkllm import is_rkllm
from ..formats.tensor_attrs import default_attr
from ..libraries import missing_library
from ..spi.command import Column, Command, Console, Exit, Line, Part, Table, Tone, bytes_text
from ..spi.inspection import Inspector
from ..tensor import TensorAttr

__all__ = ["COMMAND"]


class Info(Command):
    """See the module."""

    name = "info"
    help = "what a model file says: versions, inputs, outputs, operators"
    examples = (
        "rknnlite info model.rknn",
        "rknnlite info old.rknn new.rknn",
        "rknnlite info --json model.rknn | jq .inputs",
    )

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "models", nargs="+", type=Path, metavar="MODEL", help=".rknn files, or language model packages"
        )
        parser.add_argument(
            "--check",
            action="store_true",
            help="also: patterns with reports of wrong results on boards, and what no verified file has had",
        )
        parser.add_argument(
            "--npu",
            action="store_true",
            help="also: what the NPU is given for each node, and limits that are near",
        )

    def run(self, args: argparse.Namespace, console: Console) -> int:
        known = plugins.inspectors()
        if args.npu and "npu" not in known:
            raise missing_library("npu", "--npu is not here")
        always = [one for one in known.values() if not one.topic]
        asked = always + [one for one in known.values() if one.topic and getattr(args, one.topic)]
        if len(args.models) == 1:
            data, parts = _told(model_file(args.models[0]), asked, args.check, console)
            console.report(data, *parts)
            return Exit.OK
        found: list[dict[str, Any]] = []
        lines: list[Part] = []
        for path in args.models:
            try:
                data, parts = _told(model_file(path), asked, args.check, console)
            except RknnError as error:  # the others are told all the same
                data, parts = {"model": str(path), "error": str(error)}, [Line(str(error), Tone.BAD)]
            found.append(data)
            lines += [*([""] if lines else []), *parts]
        console.report(found, *lines)
        return Exit.MODEL if any("error" in one for one in found) else Exit.OK


def _told(
    file: ModelFile, asked: list[Inspector], check: bool, console: Console
) -> tuple[dict[str, Any], list[Part]]:
    """What is known of one file, as data and to be read."""
    told = [one.describe(file, check) for one in asked]
    described = [one for one in told if one is not None]
    room = "rkllm" if is_rkllm(file.path, file.data) else "llm" if is_package(file.data) else ""
    if room:
        if not described:
            raise missing_library(room, f"{file.label} is a language model, which nothing here reads")
        return described[0].data, described[0].facts
    model = file.model
    soc = next(iter(model.socs), None)
    inputs = [default_attr(i, io, model.batch, True, soc) for i, io in enumerate(model.inputs)]
    outputs = [default_attr(i, io, model.batch, False, soc) for i, io in enumerate(model.outputs)]
    data = {
        "model": file.label, "bytes": len(file.data), "container": model.container,
        "toolkit_version": model.toolkit_version, "compiler_version": model.compiler_version,
        "platform": model.platform, "platforms": model.platforms, "runs_on": model.runs_on,
        "framework": model.framework, "batch": model.batch, "dynamic": model.dynamic,
        "shapes": model.shapes, "custom_string": model.custom_string, "custom_ops": model.custom_ops,
        "inputs": [{**_fields(attr), "mean": io.mean, "std": io.std} for attr, io in zip(inputs, model.inputs)],
        "outputs": [_fields(attr) for attr in outputs],
    }  # fmt: skip
    for one in described:
        data.update(one.data)
    show = _attr_tables if console.room else _attr_lines
    parts = [*_facts(file, model), *(part for one in described for part in one.facts), ""]
    parts += [*show(inputs, outputs, _means(model)), *(part for one in described for part in one.tensors)]
    rest = [part for one in described for part in one.rest]
    return data, [*parts, *_shapes(model), *([""] if rest else []), *rest]


def _fields(attr: TensorAttr) -> dict[str, Any]:
    return {
        "index": attr.index, "name": attr.name, "shape": attr.dims, "n_elems": attr.n_elems, "bytes": attr.size,
        "w_stride": attr.w_stride, "bytes_with_stride": attr.size_with_stride or attr.size,
        "layout": attr.layout.name, "dtype": attr.dtype.name.lower(),
        "scale": attr.quant.scale if attr.quant else None, "zero_point": attr.quant.zero_point if attr.quant else None,
    }  # fmt: skip


def _facts(file: ModelFile, model: Model) -> list[Part]:
    """One line each."""
    facts: list[tuple[str, Union[str, int]]] = [
        ("file", f"{file.label} ({bytes_text(len(file.data))})"),
        (
            "container",
            f"version {model.container:#x}" if model.container > 9 else f"version {model.container}",
        ),
        ("toolkit", model.toolkit_version or "unknown"),
        (
            "ovxlib" if model.generation == "rknpu1" else "compiler",
            model.compiler_version or "unknown",
        ),
        ("made for", "/".join(model.platforms or (model.platform,))),
        ("runs on", ", ".join(model.runs_on) or "no SoC known here"),
        ("framework", model.framework or "unknown"),
        ("batch", model.batch),
        ("shapes", f"{len(model.shapes)} sets" if model.dynamic else "static"),
    ]
    facts += [("custom string", model.custom_string)] if model.custom_string else []
    facts += [("custom ops", ", ".join(model.custom_ops))] if model.custom_ops else []
    return [Line(f"{name + ':':15}{value}", hang=15) for name, value in facts]


def _attr_lines(inputs: list[TensorAttr], outputs: list[TensorAttr], means: list[Part]) -> list[Part]:
    """Inputs and outputs as the runtime prints them."""
    told = [[f"  {attr}" for attr in attrs] for attrs in (inputs, outputs)]
    return ["inputs:", *told[0], *means, "outputs:", *told[1]]


_ATTR_COLUMNS = (
    Column("", True, drop=2), Column("name", least=12), Column("dims"), Column("type"), Column("fmt", drop=3),
    Column("scale", True, drop=1), Column("zp", True, drop=1), Column("bytes", True, drop=4), Column("w_stride", True, drop=5),
    Column("with stride", True, drop=6),
)  # fmt: skip


def _attr_tables(inputs: list[TensorAttr], outputs: list[TensorAttr], means: list[Part]) -> list[Part]:
    """The same as tables."""
    parts: list[Part] = []
    for title, attrs in (("inputs", inputs), ("outputs", outputs)):
        rows = [
            [
                str(attr.index), attr.name, str(list(attr.dims)), attr.dtype.short, attr.layout.name,
                f"{attr.quant.scale:.6g}" if attr.quant else "", str(attr.quant.zero_point) if attr.quant else "",
                str(attr.size), str(attr.w_stride or ""), str(attr.size_with_stride or attr.size),
            ]
            for attr in attrs
        ]  # fmt: skip
        parts += [Line(title, Tone.HEAD), Table(_ATTR_COLUMNS, rows, ""), ""]
    return [*parts[:2], *means, *parts[2:-1]]


def _means(model: Model) -> list[Part]:
    lines = [
        f"  mean={_numbers(io.mean)}, std={_numbers(io.std)} ({io.name})" for io in model.inputs if io.mean
    ]
    return [Line(line, hang=4) for line in lines]


def _shapes(model: Model) -> list[Part]:
    if not model.dynamic:
        return []
    lines = ["  " + "  ".join(str(list(shape)) for shape in shapes) for shapes in model.shapes]
    return ["", "shapes (logical order), one set per line:", *(Line(line, hang=4) for line in lines)]


def _numbers(values: tuple[float, ...]) -> str:
    return "[" + ", ".join(f"{value:g}" for value in values[:8]) + (", ...]" if len(values) > 8 else "]")


COMMAND = Info()
