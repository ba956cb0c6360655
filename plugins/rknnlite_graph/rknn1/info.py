"""What ``rknnlite info`` says of files of the first toolkit beyond what it says of all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

from rknnlite.formats import Model
from rknnlite.formats.rknn1 import Rknn1Model
from rknnlite.formats.rknn1.tensors import TensorEntry
from rknnlite.spi.command import Line, Part

from .description import Description, describe

__all__ = ["FirstToolkit"]


class FirstToolkit(NamedTuple):
    """As data, as lines below the facts, and as lines below inputs and outputs."""

    data: dict[str, Any]
    lines: list[Part]
    tensors: list[Part]

    @classmethod
    def of(cls, model: Model) -> FirstToolkit:
        """Read from the description; nothing is decoded."""
        first = cast(Rknn1Model, model)
        found = describe(first)
        inputs, outputs = ([found.norms[index] for index in ends] for ends in (found.inputs, found.outputs))
        data = {
            "family": first.family,
            "pre_compiled": first.pre_compiled,
            "board_only": first.board_only,
            "channels_last": found.channels_last,
            "ovxlib": first.compiler_version,
            "reorder": [io.reorder for io in first.inputs],
            "quantisation": {
                "inputs": [_quantisation(entry) for entry in inputs],
                "outputs": [_quantisation(entry) for entry in outputs],
            },
        }
        facts = [
            ("generation", "first (RKNN-Toolkit 1, librknn_api)"),
            ("form", _form(first)),
            ("quantisation", ", ".join(dict.fromkeys(map(_kind, _all_tensors(found))))),
            ("graph order", "NHWC" if found.channels_last else "NCHW"),
        ]
        lines: list[Part] = [Line(f"{name + ':':15}{value}", hang=15) for name, value in facts]
        return cls(data, lines, [Line(line, hang=4) for line in _about_tensors(first, inputs, outputs)])


def _form(model: Rknn1Model) -> str:
    """Where it runs."""
    if model.pre_compiled:
        return "pre-compiled: runs on the board through librknn_api"
    if model.container == 2:
        return "plain graph with custom operators compiled for the board: runs there through librknn_api"
    return "plain graph: runs on the board through librknn_api, and on the CPU reference"


def _all_tensors(found: Description) -> Iterator[TensorEntry]:
    yield from found.norms.values()
    yield from found.virtuals.values()


def _kind(entry: TensorEntry) -> str:
    if entry.shift is not None:
        return f"dynamic fixed point {entry.dtype.name.lower()}"
    return f"asymmetric {entry.dtype.name.lower()}" if entry.quant else entry.dtype.name.lower()


def _quantisation(entry: TensorEntry) -> dict[str, Any]:
    if entry.quant is None:
        return {"kind": "none"}
    if entry.shift is not None:
        return {"kind": "dynamic_fixed_point", "fl": entry.shift}
    return {"kind": "asymmetric", "scale": entry.quant.scale, "zero_point": entry.quant.zero_point}


def _about_tensors(
    model: Rknn1Model, inputs: Sequence[TensorEntry], outputs: Sequence[TensorEntry]
) -> Iterator[str]:
    """Channel order, and fractional bits, which the scale of an attribute hides."""
    for io in model.inputs:
        if io.reorder:
            swapped = " (RGB pictures are turned into BGR)" if io.reorder == (2, 1, 0) else ""
            yield f"  channel order={list(io.reorder)}{swapped} ({io.name})"
    for entry in (*inputs, *outputs):
        if entry.shift is not None:
            yield f"  dynamic fixed point fl={entry.shift}, scale=2^{-entry.shift} ({entry.name})"
