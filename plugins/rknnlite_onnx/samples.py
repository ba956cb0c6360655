"""Samples of a model's inputs, from files or made up, as its caller gives them, and the same as a written network takes them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rknnlite_graph.graph import Graph
from rknnlite_graph.node_view import NodeView
from rknnlite_graph.read import read_graph

from rknnlite.errors import InputInvalid
from rknnlite.files.input_arrays import arrays_for, made_up
from rknnlite.formats import IoTensor, Model
from rknnlite.formats.tensor_attrs import default_attr
from rknnlite.tensor import TensorAttr

__all__ = [
    "add_sample_options",
    "channel_numbers",
    "made_up_samples",
    "network_feeds",
    "network_kind",
    "samples_of",
]

Array = NDArray[Any]
_SEED = 31
_RECTANGLES = 24
_LAID = ("Cast", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
"""Operators behind which tokens are the same numbers."""


def add_sample_options(parser: argparse.ArgumentParser, purpose: str) -> None:
    """``--pictures`` and ``--bgr``, as ``samples_of`` takes them."""
    parser.add_argument(
        "--pictures",
        type=Path,
        metavar="FOLDER",
        help=f"samples to {purpose}, one file each (pictures, .npy; .npz for several inputs); default: random ones",
    )
    parser.add_argument("--bgr", action="store_true", help="pictures stay as OpenCV reads them; else RGB")


def samples_of(model: Model, folder: Path | None, bgr: bool, count: int) -> list[list[Array]]:
    """Arrays for the inputs, a list per file of the folder, or so many made-up ones; pictures are RGB unless ``bgr``.

    Raises InputInvalid: the folder has nothing for this model.
    """
    if folder is None:
        return made_up_samples(model, count)
    attrs = [default_attr(i, io, model.batch, True) for i, io in enumerate(model.inputs)]
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    if not files:
        raise InputInvalid(f"{folder} has no files; put pictures or .npy files there")
    return [arrays_for([str(path)], attrs, bgr) for path in files]


def made_up_samples(model: Model, count: int) -> list[list[Array]]:
    """``count`` samples (rank 4: NHWC): in turns random pixels and pictures of rectangles, which have edges and plain areas as what
    networks are trained on; random numbers; tokens that their tables have, and ones for other integers."""
    attrs = [default_attr(i, io, model.batch, True) for i, io in enumerate(model.inputs)]
    limits = [0] * len(attrs)
    if not all(_is_real(attr) for attr in attrs):
        graph = read_graph(model, model.default_shape)
        rows = _table_rows(graph)
        limits = [rows.get(index, 0) for index in graph.inputs]
    return [[_made(attr, limit, number) for attr, limit in zip(attrs, limits)] for number in range(count)]


def _is_real(attr: TensorAttr) -> bool:
    return attr.quant is not None or attr.dtype.is_float


def _made(attr: TensorAttr, rows: int, number: int) -> Array:
    random = np.random.default_rng(_SEED + attr.index + 1000 * number)
    if _is_real(attr):
        given = made_up(attr, number)
        return _rectangles(given.shape, random) if given.dtype == np.uint8 and number % 2 else given
    whole = random.integers(0, rows, attr.dims) if rows else np.ones(attr.dims)
    return whole.astype(attr.dtype.numpy)


def _rectangles(shape: tuple[int, ...], random: np.random.Generator) -> Array:
    """Pictures [N, H, W, C] of rectangles of one colour each, one over the other."""
    pixels = np.empty(shape, np.uint8)
    for picture in pixels:
        picture[:] = random.integers(0, 256, shape[3])
        for _ in range(_RECTANGLES):
            rows, columns = (np.sort(random.integers(0, size + 1, 2)) for size in shape[1:3])
            picture[slice(*rows), slice(*columns)] = random.integers(0, 256, shape[3])
    return pixels


def _table_rows(graph: Graph) -> dict[int, int]:
    """Of tensors that name rows of a table, or become such: how many rows the smallest table has."""
    rows: dict[int, int] = {}
    for node in reversed(graph.nodes):
        view = NodeView(graph, node)
        if node.op == "Gather" and view.has(0) and view.has(1) and view.tensor(0).shape:
            source, found = view.tensor(1).index, view.tensor(0).shape[int(view.parameters["axis"])]
        elif node.op in _LAID and view.has(0) and node.outputs[0] in rows:
            source, found = view.tensor(0).index, rows[node.outputs[0]]
        else:
            continue
        rows[source] = min(found, rows.get(source, found))
    return rows


def network_feeds(
    ins: Sequence[IoTensor], arrays: Sequence[Array], items: int = 1, normalise: bool = False
) -> dict[str, Array]:
    """What a written network takes, by name: so many items, NCHW; normalised here unless the network does that."""
    found: dict[str, Array] = {}
    for io, array in zip(ins, arrays):
        if array.ndim != 4:
            value = array[: items * io.shape[0]] if array.ndim else array
            found[io.name] = np.ascontiguousarray(value, network_kind(io))
            continue
        plain = array.transpose(0, 3, 1, 2)[: items * io.shape[0]]
        if network_kind(io) == np.float32 and not normalise:
            shape = (1, -1, 1, 1)
            mean, std = (
                np.array(channel_numbers(io, *each), np.float32).reshape(shape)
                for each in ((io.mean, 0.0), (io.std, 1.0))
            )
            plain = (plain.astype(np.float32) - mean) / std
        found[io.name] = np.ascontiguousarray(plain, network_kind(io))
    return found


def channel_numbers(io: IoTensor, given: Sequence[float], default: float) -> list[float]:
    """One per channel; the converter wants as many for the second axis of inputs of other ranks."""
    channels = io.shape[1] if len(io.shape) > 1 else 1
    return list(given) if len(given) == channels else list(given or [default])[:1] * channels


def network_kind(io: IoTensor) -> Any:
    """numpy's element type of an input of a written network."""
    floating = io.quant is not None or io.dtype.is_float
    return np.dtype(np.float32) if floating else np.dtype(io.dtype.numpy)
