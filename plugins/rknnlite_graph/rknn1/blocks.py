"""Operators that trade rows and columns for channels or for the batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .description import NodeEntry
from .graph import GraphBuilder, lowers
from .layers import numbers

__all__: list[str] = []

_DEPTH_HAS_MODE = (1, 1, 22)


@lowers("REORG")
def reorg(build: GraphBuilder, entry: NodeEntry) -> None:
    """Darknet's order: the flat input is read as a picture of fewer channels and larger rows, and taken apart."""
    x = build.input(entry)
    n, c, height, width = build.shape(x)
    (step,) = numbers(build, entry, "stride", (1,), 1)
    if c % step**2 or height % step or width % step:
        raise build.fail(entry, f"blocks of {step} of {list(build.shape(x))}")
    y = build.output(entry, (n, c * step**2, height // step, width // step))
    few = c // step**2
    shapes = [(n, few, height, step, width, step), (n, step, step, few, height, width)]
    _turned(build, entry, x, y, shapes, [0, 3, 5, 1, 2, 4])


def _blocks(build: GraphBuilder, entry: NodeEntry) -> tuple[int, tuple[int, ...], int]:
    x = build.input(entry)
    found: Any = entry.attrs.get("block_size")
    if isinstance(found, list) and len(set(map(str, found))) > 1:
        raise build.unsupported(entry, f"blocks of {found!r:.60} are not known")
    step = found[0] if isinstance(found, list) and found else found
    if isinstance(step, bool) or not isinstance(step, int) or not 1 <= step <= 256:
        raise build.fail(entry, f"block_size is {found!r:.80}")
    return x, build.shape(x), step


@lowers("SPACE2DEPTH")
def space_to_depth(build: GraphBuilder, entry: NodeEntry) -> None:
    x, (n, c, h, w), step = _blocks(build, entry)
    y = build.output(entry, (n, c * step**2, h // step, w // step))
    build.emit("SpaceToDepth", entry, [x], [y], blocksize=step)


@lowers("DEPTH2SPACE")
def depth_to_space(build: GraphBuilder, entry: NodeEntry) -> None:
    x, (n, c, h, w), step = _blocks(build, entry)
    y = build.output(entry, (n, c // step**2, h * step, w * step))
    rows_first = str(entry.attrs.get("mode")).endswith("CRD") and build.found.ovxlib >= _DEPTH_HAS_MODE
    build.emit("DepthToSpace", entry, [x], [y], blocksize=step, mode="CRD" if rows_first else "DCR")


@lowers("SPACE2BATCH")
def space_to_batch(build: GraphBuilder, entry: NodeEntry) -> None:
    """Image b of the result with offset (i, j): number (i * columns + j) * batch + b."""
    x, (n, c, h, w), step = _blocks(build, entry)
    _no_border(build, entry, "pad")
    if h % step or w % step:
        raise build.fail(entry, f"blocks of {step} of {list(build.shape(x))}")
    y = build.output(entry, (n * step**2, c, h // step, w // step))
    shapes = [(n, c, h // step, step, w // step, step), (step, step, n, c, h // step, w // step)]
    _turned(build, entry, x, y, shapes, [3, 5, 0, 1, 2, 4])


@lowers("BATCH2SPACE")
def batch_to_space(build: GraphBuilder, entry: NodeEntry) -> None:
    """The reverse of SPACE2BATCH."""
    x, (n, c, h, w), step = _blocks(build, entry)
    _no_border(build, entry, "crop")
    if n % step**2:
        raise build.fail(entry, f"a batch of {n} in blocks of {step}")
    few = n // step**2
    y = build.output(entry, (few, c, h * step, w * step))
    _turned(build, entry, x, y, [(step, step, few, c, h, w), (few, c, h, step, w, step)], [2, 3, 4, 0, 5, 1])


def _no_border(build: GraphBuilder, entry: NodeEntry, key: str) -> None:
    found = entry.attrs.get(key)
    values = found if isinstance(found, list) else [found or 0]
    if any(value != 0 for value in values):
        raise build.unsupported(entry, f"a border of {found!r:.60} is not known")


def _turned(
    build: GraphBuilder, entry: NodeEntry, x: int, y: int, shapes: Sequence[tuple[int, ...]], perm: list[int]
) -> None:
    """Cut into cells, turn them, join them."""
    cells, turned = (build.helper(entry, x, part, word) for part, word in zip(shapes, ("cells", "turned")))
    build.emit("Reshape", entry, [x], [cells])
    build.emit("Transpose", entry, [cells], [turned], perm=perm)
    build.emit("Reshape", entry, [turned], [y])
