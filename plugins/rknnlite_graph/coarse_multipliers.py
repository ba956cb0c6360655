"""Channels whose multiplier is too small to hold their scale: good in the vendor's simulator, bad on a board.

An int8 file keeps the scale of each output channel (of each row of an LSTM) as a whole number, 16384 for the channel with the
largest weights. Rounding it changes the channel by up to half of 1/number: 2 % at 25, half at 1; at 0 nothing is left. The
NPU and the CPU reference compute with these numbers, the simulator with the exact scales. It takes one channel with weights
thousands of times larger than the others', often one that no value ever reaches.

Toolkit 2.5 writes no number below 1 (rk3566, rk3568: 16) for a convolution: it rounds the weights of the channel to the scale
of that number instead. The scale is exact then; few of the 256 values of a weight are left, in the simulator as well.
Of some LSTMs it writes one number per gate and leaves the others to chance: 0, or more than 16384.

Most of it is never seen, as channels with so small weights hardly count. ``steps`` estimates what is: the change of the
layer's output for inputs of middling size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import isfinite
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelInvalid
from rknnlite.formats import Model
from rknnlite.quant import RANGES
from rknnlite.spi.finding import Finding, Level

from .float_graph import weight_steps
from .graph import ConvParams, Graph, Node, StoredRows, coarse
from .read import told_graph

__all__ = [
    "REMEDY",
    "CoarseLayer",
    "coarse_data",
    "coarse_findings",
    "coarse_layers",
    "coarse_of",
    "coarse_summary",
    "worst_of",
]

Array = NDArray[Any]

REMEDY = (
    "let these layers compute in float16 (hybrid quantisation: hybrid_quantization_step1 and 2), or bring the weights of their "
    "channels to one size before conversion; quantized_method='layer' does not help"
)

_LARGEST = 1 << 14
_FLOORS = (1, 16)  # the least numbers that toolkit 2.5 writes
_MIDDLING = 0.25  # of what an input can store
_SEEN = 0.5  # steps of an output
_NOISY = 2.0  # steps that rounding the weights changes; 0.8 in an ordinary layer
_SHOWN = 12
_WORST = 3
_SIGMOID = 1 / 127  # a step of what a gate makes of its sum


@dataclass(frozen=True)
class CoarseLayer:
    """A convolution, or the matrix of a recurrent node (``W`` or ``R``), some of whose channels have coarse multipliers.

    ``channels`` are their numbers (rows gate by gate) without those whose stored weights are all zero, ``lost`` those among
    them whose change is seen, ``of`` the number of all. ``steps``: the largest change of the output, in its steps; infinite
    where a number says nothing of its scale.
    """

    node: str
    matrix: str
    channels: tuple[int, ...]
    lost: tuple[int, ...]
    of: int
    steps: float

    def __str__(self) -> str:
        what = f"rows of {self.matrix}" if self.matrix else "channels"
        head = f"{self.node}: {len(self.channels)} of {self.of} {what} ({_numbers(self.channels)})"
        if not self.lost:
            return f"{head}; none changes what comes out by half a step"
        which = "all" if self.lost == self.channels else _numbers(self.lost)
        much = (
            f"up to {self.steps:.3g} steps of its output"
            if isfinite(self.steps)
            else "their scales are not in the file"
        )
        return f"{head}; {which} lost: {much}"


def coarse_layers(graph: Graph) -> list[CoarseLayer]:
    """In order of execution; weights are decoded where there is something to tell."""
    found: list[Optional[CoarseLayer]] = []
    for node in graph.nodes:
        if node.conv is not None:
            found.append(_of_convolution(node, node.conv, graph))
        elif node.recurrent is not None:
            found += [_of_matrix(node, rows, graph) for rows in node.recurrent.stored]
    return [layer for layer in found if layer is not None]


def coarse_of(model: Model) -> list[CoarseLayer]:
    """Those of a model's default shape; none for a graph that cannot be read, which is told elsewhere."""
    try:
        return coarse_layers(told_graph(model))
    except ModelInvalid:
        return []


def coarse_summary(layers: Sequence[CoarseLayer]) -> str:
    """One line for all layers."""
    channels, lost = (
        sum(len(each) for each in part) for part in zip(*((one.channels, one.lost) for one in layers))
    )
    where = f"{len(layers)} layers" if len(layers) > 1 else layers[0].node
    head = f"{channels} channels of {where} have multipliers too coarse for their scales"
    if not lost:
        return f"{head}, none of which changes what comes out by half a step"
    which = "all" if lost == channels else f"{lost}"
    return f"{head}, {which} of which change what comes out: a board may be worse than the vendor's simulator"


def coarse_data(layers: Sequence[CoarseLayer]) -> list[dict[str, Any]]:
    """For programs; ``steps`` is None where it is infinite."""
    return [{**vars(layer), "steps": layer.steps if isfinite(layer.steps) else None} for layer in layers]


def worst_of(layers: Sequence[CoarseLayer]) -> list[CoarseLayer]:
    """The layers that lose most, in order of execution."""
    most = sorted((layer for layer in layers if layer.lost), key=lambda layer: -layer.steps)[:_WORST]
    return [layer for layer in layers if layer in most]


def coarse_findings(model: Model) -> Iterator[Finding]:
    """For ``doctor``: the summary and the layers that lose most."""
    layers = coarse_of(model)
    if layers:
        worst = worst_of(layers)
        text = ". ".join([coarse_summary(layers), *map(str, worst)])
        yield Finding("silicon", Level.WARN if worst else Level.INFO, text, REMEDY if worst else "")


# -- one layer -----------------------------------------------------------------------------------------------


def _of_convolution(node: Node, conv: ConvParams, graph: Graph) -> Optional[CoarseLayer]:
    stored = conv.stored_multiplier
    few = np.flatnonzero(coarse(stored))
    if stored is None or conv.zero_point is None or not few.size:
        return None
    x, y = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    units = weight_steps(node, graph)
    if x.quant is None or units is None:
        return None
    weights = conv.weight()[few].astype(np.float64) - conv.zero_point[few].reshape(-1, 1, 1, 1)
    weights = weights.reshape(len(few), -1)
    bias = np.zeros(len(few)) if conv.bias is None else np.asarray(conv.bias, np.float64)[few]
    bias = bias + x.quant.zero_point * weights.sum(axis=1)  # what it is where inputs are real zeros
    largest = RANGES[x.dtype][1]
    size = _MIDDLING * 2 * largest
    sums = np.abs(bias) + size * np.sqrt((weights**2).sum(axis=1))
    unit = units[few] * x.quant.scale
    step = y.quant.scale if y.quant is not None else float(np.abs(sums * unit).max()) * _SEEN
    noise = size * np.sqrt(weights.shape[1] / 12) * unit / (step or 1.0)
    span = _span(weights)
    return _layer(node.label(), "", stored, few, span, sums * unit / (step or 1.0), noise, largest)


def _of_matrix(node: Node, rows: StoredRows, graph: Graph) -> Optional[CoarseLayer]:
    stored = rows.multiplier.reshape(-1)
    few = np.flatnonzero(coarse(stored))
    x = graph.tensors[node.inputs[0]]
    params = node.recurrent
    if not few.size or params is None or x.quant is None:
        return None
    matrix, bias = (params.w, params.w_bias) if rows.matrix == "W" else (params.r, params.r_bias)
    size = _MIDDLING * (255 * x.quant.scale if rows.matrix == "W" else 2.0)
    weights = matrix.reshape(len(stored), -1)[few].astype(np.float64)
    span = rows.span.reshape(-1)[few]
    sums = np.abs(bias.reshape(-1)[few]) + size * np.sqrt((weights**2).sum(axis=1))
    width = np.ptp(weights, axis=1) / np.maximum(span, 1)  # of a step of the weights
    noise = size * np.sqrt(weights.shape[1] / 12) * width / _SIGMOID
    return _layer(node.label(), rows.matrix, stored, few, span, sums / _SIGMOID, noise, 127)


def _layer(
    label: str, matrix: str, stored: Array, few: Array, span: Array, sums: Array, noise: Array, limit: int
) -> Optional[CoarseLayer]:
    """``few``: numbers of the channels that are coarse; of them the span of the stored weights, what comes out at middling
    inputs and what rounding the weights changes, both in steps; ``limit``: the largest weight."""
    numbers = stored[few]
    floor = stored.min() if stored.min() in _FLOORS else 0
    exact = (numbers == floor) & (span < 2 * limit)  # the weights were fitted to the number
    with np.errstate(all="ignore"):  # numbers of 0 are dealt with below
        change = np.where(exact, noise, np.abs(sums) * 0.5 / numbers)
    change = np.where((numbers == 0) | (numbers > _LARGEST), np.inf, change)
    there = span > 0
    seen = there & (change >= np.where(exact, _NOISY, _SEEN))
    if not there.any():
        return None
    return CoarseLayer(
        label,
        matrix,
        tuple(few[there].tolist()),
        tuple(few[seen].tolist()),
        len(stored),
        float(change[there].max()),
    )


def _span(weights: Array) -> Array:
    """How many steps lie between the least and the largest weight of each row, zero among them."""
    return np.asarray(np.maximum(weights.max(axis=1), 0) - np.minimum(weights.min(axis=1), 0))


def _numbers(channels: Sequence[int]) -> str:
    """``2-7, 9``; the first runs only where there are many."""
    runs = [[n for _, n in run] for _, run in groupby(enumerate(channels), lambda pair: pair[1] - pair[0])]
    texts = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return ", ".join(texts[:_SHOWN]) + (", ..." if len(texts) > _SHOWN else "")
