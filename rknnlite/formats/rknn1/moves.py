"""Operators that move elements."""

from __future__ import annotations

import math
from typing import Any

from .description import NodeEntry
from .functions import axis_of
from .graph import GraphBuilder, lowers
from .layers import numbers

__all__: list[str] = []

_MOST = 1 << 31


def _whole(build: GraphBuilder, entry: NodeEntry, key: str, count: int, least: int = 0) -> list[int]:
    """A list of numbers, in numpy's order of axes."""
    found = entry.attrs.get(key)
    if not isinstance(found, list) or len(found) < count:
        raise build.fail(entry, f"{key} is {found!r:.80}, must be {count} numbers")
    for value in found:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < _MOST:
            raise build.fail(entry, f"{key} is {found!r:.80}, numbers must be {least} or more")
    return list(reversed(found[:count]))


@lowers("VARIABLE")
def variable(build: GraphBuilder, entry: NodeEntry) -> None:
    x = build.input(entry)
    build.emit("Reshape", entry, [x], [build.output(entry, build.shape(x))])


@lowers("RESHAPE")
def reshape(build: GraphBuilder, entry: NodeEntry) -> None:
    x = build.input(entry)
    count = len(entry.attrs.get("size") or ())
    shape = _whole(build, entry, "size", numbers(build, entry, "dim_num", (count,))[0] or count, -1)
    total, known = math.prod(build.shape(x)), math.prod(dim for dim in shape if dim > 0)
    shape = [total // max(1, known) if dim < 0 else dim for dim in shape]
    build.emit("Reshape", entry, [x], [build.output(entry, shape)])


@lowers("PERMUTE")
def permute(build: GraphBuilder, entry: NodeEntry) -> None:
    """Dimension i of the result is dimension perm[i] of the input, both counted from the innermost."""
    x = build.input(entry)
    shape = build.shape(x)
    rank = len(shape)
    perm = [rank - 1 - place for place in _whole(build, entry, "perm", rank)]
    if sorted(perm) != list(range(rank)):
        raise build.fail(entry, f"perm {entry.attrs['perm']} of a tensor of rank {rank}")
    build.emit("Transpose", entry, [x], [build.output(entry, [shape[p] for p in perm])], perm=perm)


@lowers("CONCAT")
def concat(build: GraphBuilder, entry: NodeEntry) -> None:
    parts = [build.input(entry, slot) for slot in sorted(entry.inputs)]
    shapes = [build.shape(part) for part in parts]
    axis = axis_of(build, entry, len(shapes[0]))
    shape = list(shapes[0])
    shape[axis] = sum(other[axis] for other in shapes)
    build.emit("Concat", entry, parts, [build.output(entry, shape)], axis=axis)


@lowers("SLICE")
def slice_(build: GraphBuilder, entry: NodeEntry) -> None:
    x = build.input(entry)
    rank = len(build.shape(x))
    starts, lengths = _whole(build, entry, "start", rank), _whole(build, entry, "length", rank, -1)
    sizes = [size - start if n <= 0 else n for n, start, size in zip(lengths, starts, build.shape(x))]
    ends = [start + n for start, n in zip(starts, sizes)]
    if any(end > size for end, size in zip(ends, build.shape(x))):
        raise build.fail(entry, f"starts {starts} and lengths {sizes} of {list(build.shape(x))}")
    y = build.output(entry, sizes)
    build.emit("Slice", entry, [x], [y], starts=starts, ends=ends, axes=list(range(rank)))


@lowers("SPLIT")
def split(build: GraphBuilder, entry: NodeEntry) -> None:
    x = build.input(entry)
    shape = build.shape(x)
    axis = axis_of(build, entry, len(shape))
    sizes = entry.attrs.get("slices")
    if not isinstance(sizes, list) or len(sizes) != entry.ports:
        if shape[axis] % entry.ports:
            raise build.fail(entry, f"{shape[axis]} elements in {entry.ports} parts")
        sizes = [shape[axis] // entry.ports] * entry.ports
    outputs = [
        build.output(entry, [*shape[:axis], size, *shape[axis + 1 :]], port)
        for port, size in enumerate(sizes)
    ]
    build.emit("Split", entry, [x], outputs, axis=axis)


@lowers("SHUFFLECHANNEL")
def shuffle(build: GraphBuilder, entry: NodeEntry) -> None:
    x = build.input(entry)
    n, c, *rest = build.shape(x)
    (groups,) = numbers(build, entry, "group_number", (1,), 1)
    if c % groups:
        raise build.fail(entry, f"{c} channels in {groups} groups")
    y = build.output(entry, (n, c, *rest))
    apart = build.helper(entry, x, (n, groups, c // groups, *rest), "groups")
    turned = build.helper(entry, x, (n, c // groups, groups, *rest), "turned")
    build.emit("Reshape", entry, [x], [apart])
    build.emit("Transpose", entry, [apart], [turned], perm=[0, 2, 1, *range(3, 3 + len(rest))])
    build.emit("Reshape", entry, [turned], [y])


@lowers("PAD")
def pad(build: GraphBuilder, entry: NodeEntry) -> None:
    x = build.input(entry)
    shape = build.shape(x)
    front, back = (_whole(build, entry, key, len(shape)) for key in ("front_size", "back_size"))
    mode = str(entry.attrs.get("mode", "VSI_NN_PAD_MODE_CONSTANT"))
    if not mode.endswith("CONSTANT"):
        raise build.unsupported(entry, f"padding of mode {mode[:80]!r} is not known")
    value = entry.attrs.get("const_val", 0)
    y = build.output(entry, [n + a + b for n, a, b in zip(shape, front, back)])
    build.emit("Pad", entry, [x], [y], pads=[*front, *back], value=value)


@lowers("RESIZE")
def resize(build: GraphBuilder, entry: NodeEntry) -> None:
    x = build.input(entry)
    n, c, height, width = build.shape(x)
    factor = entry.attrs.get("factor") or 0
    columns, rows = (
        numbers(build, entry, "size", (0, 0)) if not factor else (int(width * factor), int(height * factor))
    )
    if str(entry.attrs.get("type")).endswith("NEAREST_NEIGHBOR"):
        mode = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    elif str(entry.attrs.get("type")).endswith("BILINEAR"):
        place = "align_corners" if entry.attrs.get("align_corners") else "asymmetric"
        place = "half_pixel" if entry.attrs.get("half_pixel_centers") else place
        mode = {"mode": "linear", "coordinate_transformation_mode": place}
    else:
        raise build.unsupported(entry, f"resizing of type {entry.attrs.get('type')!r:.80} is not known")
    if mode["mode"] == "nearest" and (
        entry.attrs.get("align_corners") or entry.attrs.get("half_pixel_centers")
    ):
        raise build.unsupported(entry, "nearest neighbours by aligned corners or half pixels are not known")
    build.emit("Resize", entry, [x], [build.output(entry, (n, c, rows, columns))], **mode)


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
    shape: list[tuple[int, ...]] = [(n, few, height, step, width, step), (n, step, step, few, height, width)]
    cells, turned = (build.helper(entry, x, part, word) for part, word in zip(shape, ("cells", "turned")))
    build.emit("Reshape", entry, [x], [cells])
    build.emit("Transpose", entry, [cells], [turned], perm=[0, 3, 5, 1, 2, 4])
    build.emit("Reshape", entry, [turned], [y])


def _blocks(build: GraphBuilder, entry: NodeEntry) -> tuple[int, tuple[int, ...], int]:
    x = build.input(entry)
    found: Any = entry.attrs.get("block_size")
    step = found[0] if isinstance(found, list) and found else found
    if isinstance(step, bool) or not isinstance(step, int) or not 1 <= step <= 256:
        raise build.fail(entry, f"block_size is {found!r:.80}")
    return x, build.shape(x), step


@lowers("SPACE2DEPTH")
def space_to_depth(build: GraphBuilder, entry: NodeEntry) -> None:
    x, (n, c, h, w), step = _blocks(build, entry)
    y = build.output(entry, (n, c * step**2, h // step, w // step))
    build.emit("SpaceToDepth", entry, [x], [y], blocksize=step).doubts.append("its order is that of ONNX")


@lowers("DEPTH2SPACE")
def depth_to_space(build: GraphBuilder, entry: NodeEntry) -> None:
    x, (n, c, h, w), step = _blocks(build, entry)
    y = build.output(entry, (n, c // step**2, h * step, w * step))
    build.emit("DepthToSpace", entry, [x], [y], blocksize=step, mode="DCR").doubts.append(
        "its order is that of ONNX's DCR"
    )
