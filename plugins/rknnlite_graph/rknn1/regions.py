"""Operators whose elements come from places that other elements tell."""

from __future__ import annotations

import numpy as np

from rknnlite.tensor import DType

from .description import NodeEntry
from .functions import real
from .graph import GraphBuilder, lowers
from .layers import numbers

__all__: list[str] = []


@lowers("UPSAMPLE")
def upsample(build: GraphBuilder, entry: NodeEntry) -> None:
    """Each element at one place of its window, which input 1 counts row by row; the rest is zero."""
    x, places = build.input(entry), build.input(entry, 1)
    n, channels, height, width = build.shape(x)
    sx, sy = numbers(build, entry, "scale", (0, 0))
    wide, high = numbers(build, entry, "size", (0, 0))
    sx, sy = sx or wide // width, sy or high // height
    if build.shape(places) != build.shape(x) or not sx or not sy:
        raise build.fail(
            entry, f"places {list(build.shape(places))} of {list(build.shape(x))}, {sy} x {sx} times"
        )
    y = build.output(entry, (n, channels, height * sy, width * sx))
    shape, cells = (n, channels, height, 1, width, 1), (n, channels, height, sy, width, sx)
    apart = [build.helper(entry, read, shape, word) for word, read in (("values", x), ("places", places))]
    here = build.add(f"{entry.name}_here", DType.BOOL, cells)
    spread = build.helper(entry, y, cells, "spread")
    numbered = np.arange(sx * sy).reshape(1, 1, 1, sy, 1, sx)
    for read, made in zip((x, places), apart):
        build.emit("Reshape", entry, [read], [made])
    build.emit("Equal", entry, [apart[1], build.number(entry, numbered, "numbers")], [here])
    build.emit("Where", entry, [here, apart[0], build.number(entry, np.zeros(1), "zero")], [spread])
    build.emit("Reshape", entry, [spread], [y])


@lowers("ROI_POOL")
def roi_pool(build: GraphBuilder, entry: NodeEntry) -> None:
    """The largest element of each part of a box, real 0 where it has none; boxes: the image, left, top, right, bottom."""
    x, boxes = build.input(entry), build.input(entry, 1)
    columns, rows = numbers(build, entry, "size", (1, 1), 1)
    count, kind = build.shape(boxes)[0], str(entry.attrs.get("type", 0))
    if not kind.endswith(("0", "MAX")):
        raise build.unsupported(entry, f"pooling of type {kind[:60]!r} is not known")
    flat = build.helper(entry, boxes, (count, 5), "boxes")
    build.emit("Reshape", entry, [boxes], [flat])
    scaled, corners = (
        build.add(f"{entry.name}_{word}", DType.FLOAT32, (count, 5)) for word in ("scaled", "corners")
    )
    factors = np.array([1, *[real(entry, "scale", 1.0)] * 4])
    build.emit("Mul", entry, [flat, build.number(entry, factors, "factors")], [scaled])
    build.emit("Round", entry, [scaled], [corners])  # a half to even
    y = build.output(entry, (count, build.shape(x)[1], rows, columns))
    build.emit("MaxRoiPool", entry, [x, corners], [y], pooled_shape=[rows, columns], spatial_scale=1.0)
