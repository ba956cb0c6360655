"""Looking into a network: what a context tells of itself, figures per layer, every tensor of a run. Everything blocks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Optional

from rknnlite_insight.dumps import Dump
from rknnlite_protocol.board import Description, PerfFigures, Refusal
from rknnlite_protocol.execution import take_inputs
from rknnlite_protocol.requests import InferRequest

from rknnlite.errors import RknnError
from rknnlite.spi import AttrKind, Context

from .network import ServedNetwork

__all__ = ["describe", "dump", "perf"]

Shapes = Sequence[Sequence[int]]


def describe(context: Context, name: str, shapes: Optional[Shapes], default: Shapes) -> Description:
    """What a context is like with these shapes, for a caller who has it to himself; ``default`` ones are chosen again.

    Raises:
        ParamInvalid: the model has no such shapes.
    """
    with context.exclusive():
        if shapes is not None or context.shapes:
            context.set_shapes(default if shapes is None else shapes)
        try:
            return _described(context, name)
        finally:
            if context.shapes:
                context.set_shapes(default)


def _described(context: Context, name: str) -> Description:
    attrs, refused = {}, {}
    for kind in AttrKind:
        try:
            attrs[kind] = tuple(context.attrs(kind))
        except RknnError as error:
            refused[kind.value] = Refusal.of(error)
    try:
        memory = context.memory()
    except RknnError as error:
        memory, refused["memory"] = None, Refusal.of(error)
    return Description(
        name,
        context.backend_name,
        context.soc.name,
        context.versions,
        attrs,
        refused,
        context.custom_string,
        context.core_num,
        context.batch,
        tuple(tuple(tuple(dims) for dims in entry) for entry in context.shapes),
        not context.shapes or type(context)._shape_chosen,
        memory,
    )


def perf(network: ServedNetwork, request: InferRequest) -> PerfFigures:
    """Figures per layer of one run on these inputs, in a context opened for it; raises what opening and running raise."""
    with network.open_apart(collect_perf=True) as context, context.exclusive():
        for _ in range(2):  # the first run warms up
            _run(context, request)
        table = context.perf_table()
        return PerfFigures.of(table, context.last_run_us)


def dump(network: ServedNetwork, request: InferRequest, folder: Path, golden: Optional[Path]) -> None:
    """Every tensor of one run on these inputs, as files of a folder; raises what opening and running raise."""
    given = None if golden is None else Dump.read(golden)
    with network.open_apart() as context, context.exclusive():
        _run(context, request)
        context.dump(folder, given)


def _run(context: Context, request: InferRequest) -> None:
    mask = request.whole("core_mask", 0xFFFF)
    if mask is not None:
        context.set_core_mask(mask)
    take_inputs(context, request)
    context.run()
    context.get_outputs()
