"""``rknnlite perf``: where the time of a run goes, layer by layer and operator by operator."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import cast

from rknnlite_backend.perf import UNKNOWN, MemorySize, OpRank, PerfRow, PerfTable
from rknnlite_pages.report import need_templates

from rknnlite import plugins
from rknnlite.commandline.devices import place_of_run
from rknnlite.commandline.options import (
    add_inputs,
    add_isolation,
    add_model,
    model_file,
    open_context,
    output_file,
)
from rknnlite.errors import ParamInvalid, RknnError
from rknnlite.files.input_arrays import arrays_for
from rknnlite.libraries import missing_library
from rknnlite.spi import Context
from rknnlite.spi.command import Command, Console, Exit

from ..plot import height_of, need_figures, save
from .perf_page import page
from .perf_text import estimate_parts, perf_parts
from .perf_verdict import verdict

__all__ = ["COMMAND", "draw"]

_CYCLES = (
    ("ddr_cycles", "DDRCycles"),
    ("npu_cycles", "NPUCycles"),
    ("max_cycles", "MaxCycles"),
    ("mac_usage", "MacUsage(%)"),
    ("tasks", "TaskNumber"),
)
"""Of an estimate: name in JSON, column."""


class Perf(Command):
    """See the module."""

    name = "perf"
    help = "time and traffic per layer and per operator"
    examples = (
        "rknnlite perf model.rknn",
        "rknnlite perf model.rknn --device board:8001",
        "rknnlite perf model.rknn --npu",
        "rknnlite perf model.rknn --vendor-table",
        "rknnlite perf model.rknn --html report.html --plot layers.png",
    )
    common = ("--npu", "--html", "--plot", "--vendor-table", "--backend", "--device")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        add_model(parser)
        add_inputs(parser)
        add_isolation(parser)
        parser.add_argument(
            "--vendor-table",
            action="store_true",
            help="also on a terminal the tables as the vendor's manual has them, 200 columns and more",
        )
        parser.add_argument(
            "--npu",
            action="store_true",
            help="nothing is run: an estimate of the NPU's cycles and traffic from the command words of the file",
        )
        parser.add_argument("--plot", type=Path, metavar="PNG", help="draw the time per layer (extra: plot)")
        parser.add_argument(
            "--html",
            type=Path,
            metavar="HTML",
            help="write a report in one self-contained file (extra: html)",
        )

    def run(self, args: argparse.Namespace, console: Console) -> int:
        if args.npu:
            return _estimate(args, console)
        for file in filter(None, (args.plot, args.html)):
            output_file(file)
        if args.plot:
            need_figures()  # what is missing is told before the work
        if args.html:
            need_templates()
        with console.progress("perf"), open_context(args, collect_perf=True) as context:
            arrays = arrays_for(args.inputs, context.inputs, args.bgr)
            for _ in range(2):  # the first run warms up
                context.infer(arrays, layout=args.layout)
            table, memory = context.perf_table(), _memory(context)
            backend, soc = context.backend_name, context.soc.name
            where = place_of_run(context, args.device) if args.device else ""
            if where:
                # its words: "this machine" is that one
                table.note = f"{args.device}: {table.note}" if table.note else where
        if args.plot:
            draw(table, args.plot, args.model.name + (f" on {where}" if where else ""))
        if args.html:
            page(table, memory, args.model.name, backend, soc, where).write(args.html)
        headline, lines = verdict(table, backend, where)
        data = {
            "model": str(args.model),
            "device": args.device,
            "backend": backend,
            "soc": soc,
            "measured_on": where,
            "note": table.note,
            "total_us": table.total_us,
            "layers": [_layer(row) for row in table],
            "operators": [_operator(rank) for rank in table.ranking],
            "memory": _sizes(memory),
            "verdict": {"headline": headline, "lines": lines},
        }
        told = [f"measured on {where}"] if where else []
        if args.vendor_table or console.room is None:  # programs that read the manual's table go on to do so
            console.report(data, str(table), *([str(memory)] if memory else []), *told)
        else:
            console.report(data, *perf_parts(table, memory, backend, where))
        return Exit.OK


def _estimate(args: argparse.Namespace, console: Console) -> int:
    """The table of ``--npu``."""
    for name in ("device", "plot", "html"):
        if getattr(args, name):
            raise ParamInvalid(
                f"--npu is an estimate from the file, for which nothing is run; leave out --{name}"
            )
    known = plugins.inspectors().get("npu")
    if known is None:
        raise missing_library("npu", "--npu is not here")
    file = model_file(args.model)
    with console.progress("perf"):
        table = cast("PerfTable", known.layers(file, args.core_mask or 0))
    data = {
        "model": str(args.model),
        "note": table.note,
        "total_us": table.total_us,
        "layers": [{**_layer(row), **{key: row.cell(column) for key, column in _CYCLES}} for row in table],
        "operators": [_operator(rank) for rank in table.ranking],
    }
    plain = args.vendor_table or console.room is None
    console.report(data, *([str(table)] if plain else estimate_parts(table)))
    return Exit.OK


def _memory(context: Context) -> MemorySize | None:
    try:
        found: MemorySize = context.memory()
        return found
    except RknnError:  # not every runtime says
        return None


def _sizes(memory: MemorySize | None) -> dict[str, object] | None:
    """For programs."""
    return (
        None
        if memory is None
        else {name if name == "cores" else f"{name}_bytes": size for name, size in vars(memory).items()}
    )


def _layer(row: PerfRow) -> dict[str, object]:
    return {
        "id": row.id,
        "op": row.op,
        "name": row.name,
        "target": row.target,
        "dtype": (_known(row.data_type) or "").lower() or None,
        "input_shape": _known(row.input_shape),
        "output_shape": _known(row.output_shape),
        "time_us": row.time_us,
        "rw_bytes": None if row.rw_kb is None else round(1024 * row.rw_kb),
    }


def _known(cell: str) -> str | None:
    return None if cell == UNKNOWN else cell


def _operator(rank: OpRank) -> dict[str, object]:
    return {
        "op": rank.op,
        "calls": rank.calls,
        "cpu_us": rank.cpu_us,
        "gpu_us": rank.gpu_us,
        "npu_us": rank.npu_us,
        "total_us": rank.total_us,
        "percent": rank.ratio,
    }


def draw(table: PerfTable, path: Path, model: str) -> None:
    """Time per layer and per operator as a PNG; raises BackendUnavailable without matplotlib."""
    rows = list(table)
    figure = need_figures()(figsize=(14, height_of(len(rows))), layout="constrained")
    layers, operators = figure.subplots(1, 2, width_ratios=(2, 1))
    places = list(range(len(rows)))
    layers.barh(places, [row.time_us or 0.0 for row in rows], color="tab:blue")
    layers.set_yticks(places, [f"{row.op} {row.name}"[:70] for row in rows], fontsize=6, parse_math=False)
    layers.invert_yaxis()
    layers.set_xlabel("time per layer (us)")
    ranks = [rank for rank in table.ranking if rank.total_us][:20]
    operators.barh(range(len(ranks)), [rank.total_us for rank in ranks], color="tab:gray")
    operators.set_yticks(range(len(ranks)), [rank.op for rank in ranks], fontsize=7, parse_math=False)
    operators.invert_yaxis()
    operators.set_xlabel("time per operator (us)")
    figure.suptitle(model, parse_math=False)
    save(figure, path)


COMMAND = Perf()
