"""Pooling over boxes in a feature map, and patches put together to a picture."""

from __future__ import annotations

import numpy as np

from ..registry import LoweredNode, lowers
from .gather import places

__all__: list[str] = []


@lowers("RoiAlign")
def roi_align(node: LoweredNode) -> None:
    """Files that do not say where coordinates lie are of operator sets before 16, which had no such attribute."""
    mode = node.attrs.get("mode") or "avg"
    if mode != "avg":
        raise node.refuse(f"mode {mode!r}")
    half = node.attrs.get("coordinate_transformation_mode") == "half_pixel"
    *_, height, width = node.outputs[0].shape
    items = node.emit("Reshape", places(node, 2), node.ints(-1))
    found = node.emit(
        "RoiAlign",
        node.real(0),
        node.real(1),
        items,
        mode="avg",
        output_height=height,
        output_width=width,
        coordinate_transformation_mode="half_pixel" if half else "output_half_pixel",
        sampling_ratio=max(0, int(node.parameters["sampling_ratio"])),
        spatial_scale=float(node.parameters["spatial_scale"]),
    )  # fmt: skip
    node.store(found)


@lowers("MaxRoiPool")
def max_roi_pool(node: LoweredNode) -> None:
    shape, scale = list(node.outputs[0].shape[-2:]), float(node.parameters["spatial_scale"])
    node.store(node.emit("MaxRoiPool", node.real(0), node.real(1), pooled_shape=shape, spatial_scale=scale))


@lowers("Col2Im")
def col2im(node: LoweredNode) -> None:
    """Patches, one per column, added up where they overlap: a transposed convolution by ones."""
    if not (node.view.is_const(1) and node.view.is_const(2)):
        raise node.refuse("a size that the network computes")
    (height, width), (tall, wide) = ([int(v) for v in node.view.constant(i).reshape(-1)] for i in (1, 2))
    strides, dilations = (list(node.attrs.get(name, [1, 1])) for name in ("strides", "dilations"))
    top, left, bottom, right = node.attrs.get("pads", [0, 0, 0, 0])
    rows = (height + top + bottom - dilations[0] * (tall - 1) - 1) // strides[0] + 1
    columns = (width + left + right - dilations[1] * (wide - 1) - 1) // strides[1] + 1
    n, channels = node.outputs[0].shape[:2]
    taps = tall * wide
    patches = node.emit("Reshape", node.real(0), node.ints(n, channels * taps, rows, columns))
    weight = np.tile(np.eye(taps, dtype=np.float32).reshape(taps, 1, tall, wide), (channels, 1, 1, 1))
    rest = [
        height + top + bottom - (rows - 1) * strides[0] - dilations[0] * (tall - 1) - 1,
        width + left + right - (columns - 1) * strides[1] - dilations[1] * (wide - 1) - 1,
    ]
    whole = node.emit(
        "ConvTranspose",
        patches,
        node.const(weight),
        group=channels,
        strides=strides,
        dilations=dilations,
        kernel_shape=[tall, wide],
    )
    padded = node.emit("Pad", whole, node.ints(0, 0, -top, -left, 0, 0, rest[0] - bottom, rest[1] - right))
    node.store(padded)
