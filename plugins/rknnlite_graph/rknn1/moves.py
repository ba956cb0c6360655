"""Operators that move elements."""

from __future__ import annotations

import math

from .description import NodeEntry
from .functions import axis_of
from .graph import GraphBuilder, lowers
from .layers import numbers

__all__: list[str] = []

_MOST = 1 << 31


def whole(build: GraphBuilder, entry: NodeEntry, key: str, count: int, least: int = 0) -> list[int]:
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
    shape = whole(build, entry, "size", numbers(build, entry, "dim_num", (count,))[0] or count, -1)
    total, known = math.prod(build.shape(x)), math.prod(dim for dim in shape if dim > 0)
    shape = [total // max(1, known) if dim < 0 else dim for dim in shape]
    build.emit("Reshape", entry, [x], [build.output(entry, shape)])


@lowers("PERMUTE")
def permute(build: GraphBuilder, entry: NodeEntry) -> None:
    """Dimension i of the result is dimension perm[i] of the input, both counted from the innermost."""
    x = build.input(entry)
    shape = build.shape(x)
    rank = len(shape)
    perm = [rank - 1 - place for place in whole(build, entry, "perm", rank)]
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
    starts, lengths = whole(build, entry, "start", rank), whole(build, entry, "length", rank, -1)
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
    front, back = (whole(build, entry, key, len(shape)) for key in ("front_size", "back_size"))
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
        place, near = "asymmetric", "floor"
        if entry.attrs.get("half_pixel_centers"):
            place = "tf_half_pixel_for_nn"
        elif entry.attrs.get("align_corners"):
            place, near = "align_corners", "round_prefer_ceil"
        mode = {"mode": "nearest", "coordinate_transformation_mode": place, "nearest_mode": near}
    elif str(entry.attrs.get("type")).endswith("BILINEAR"):
        place = "align_corners" if entry.attrs.get("align_corners") else "asymmetric"
        place = "half_pixel" if entry.attrs.get("half_pixel_centers") else place
        mode = {"mode": "linear", "coordinate_transformation_mode": place}
    else:
        raise build.unsupported(entry, f"resizing of type {entry.attrs.get('type')!r:.80} is not known")
    build.emit("Resize", entry, [x], [build.output(entry, (n, c, rows, columns))], **mode)


@lowers("STRIDED_SLICE")
def strided_slice(build: GraphBuilder, entry: NodeEntry) -> None:
    x = build.input(entry)
    shape = build.shape(x)
    if any(entry.attrs.get(f"{word}_mask") for word in ("begin", "end", "shrink_axis", "new_axis")):
        raise build.unsupported(entry, "masks are not known")
    starts, ends = (whole(build, entry, key, len(shape)) for key in ("begin_dims", "end_dims"))
    steps = whole(build, entry, "stride_dims", len(shape), 1)
    ends = [min(end, n) for end, n in zip(ends, shape)]
    sizes = [len(range(*part)) for part in zip(starts, ends, steps)]
    y = build.output(entry, sizes)
    build.emit("Slice", entry, [x], [y], starts=starts, ends=ends, axes=list(range(len(shape))), steps=steps)


@lowers("CROP")
def crop(build: GraphBuilder, entry: NodeEntry) -> None:
    """As large as its output, or as its second input."""
    x = build.input(entry)
    shape = build.shape(x)
    norm = entry.outputs.get(0)
    if norm is not None:
        sizes = build.found.norms[norm].shape
    elif build.has(entry, 1):
        sizes = build.shape(build.input(entry, 1))
    else:
        raise build.unsupported(entry, "a crop whose size the file does not tell is not known")
    starts = whole(build, entry, "offset", len(shape))
    ends = [a + n for a, n in zip(starts, sizes)]
    if len(sizes) != len(shape) or any(end > n for end, n in zip(ends, shape)):
        raise build.fail(entry, f"offsets {starts} and sizes {list(sizes)} of {list(shape)}")
    build.emit(
        "Slice",
        entry,
        [x],
        [build.output(entry, sizes)],
        starts=starts,
        ends=ends,
        axes=list(range(len(shape))),
    )


@lowers("REVERSE")
def reverse(build: GraphBuilder, entry: NodeEntry) -> None:
    x = build.input(entry)
    shape = build.shape(x)
    found = entry.attrs.get("axis")
    if not isinstance(found, list) or not all(isinstance(a, int) and 0 <= a < len(shape) for a in found):
        raise build.fail(entry, f"axis is {found!r:.80} of a tensor of rank {len(shape)}")
    axes = sorted({len(shape) - 1 - a for a in found})
    starts, ends = [shape[a] - 1 for a in axes], [-shape[a] - 1 for a in axes]
    y = build.output(entry, shape)
    build.emit("Slice", entry, [x], [y], starts=starts, ends=ends, axes=axes, steps=[-1] * len(axes))


@lowers("TILE")
def tile(build: GraphBuilder, entry: NodeEntry) -> None:
    x = build.input(entry)
    repeats = whole(build, entry, "multiples", len(build.shape(x)), 1)
    y = build.output(entry, [n * r for n, r in zip(build.shape(x), repeats)])
    build.emit("Tile", entry, [x], [y], repeats=repeats)


@lowers("GATHER")
def gather(build: GraphBuilder, entry: NodeEntry) -> None:
    x, places = build.input(entry), build.input(entry, 1)
    shape = build.shape(x)
    axis = axis_of(build, entry, len(shape))
    y = build.output(entry, [*shape[:axis], *build.shape(places), *shape[axis + 1 :]])
    build.emit("Gather", entry, [x, places], [y], axis=axis)
