"""Data movement, indexing, pooling, resizing and sampling."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from graph import Case, Net
from judge import Judge

__all__ = ["cases"]

_FULL = (1, 16, 12, 10)


def _reshape(source: tuple[int, ...], target: tuple[int, ...]) -> Callable[[Net], str]:
    return lambda n: n.op("Reshape", n.x(*source), n.ints(*target))


def _transpose(perm: tuple[int, ...], *shape: int) -> Callable[[Net], str]:
    return lambda n: n.op("Transpose", n.x(*shape), perm=list(perm))


def _flatten(n: Net) -> str:
    return n.op("Flatten", n.x(1, 8, 4, 5), axis=1)


def _squeeze(n: Net) -> str:
    return n.op("Squeeze", n.x(1, 16, 1, 10), n.ints(2))


def _unsqueeze(n: Net) -> str:
    return n.op("Unsqueeze", n.x(1, 16, 10), n.ints(2))


def _concat(axis: int) -> Callable[[Net], str]:
    def build(n: Net) -> str:
        parts = [n.x(1, 8, 6, 6), n.op("Mul", n.x(1, 8, 6, 6), n.const(3.0))]
        return n.op("Concat", *parts, axis=axis)

    return build


def _concat_constant(n: Net) -> str:
    return n.op("Concat", n.x(1, 1, 8, 16), n.weight(1, 1, 3, 16), axis=2)


def _split(axis: int, *sizes: int) -> Callable[[Net], list[str]]:
    return lambda n: n.ops("Split", len(sizes), n.x(*_FULL), n.ints(*sizes), axis=axis)


def _slice(starts: list[int], ends: list[int], axes: list[int], steps: list[int]) -> Callable[[Net], str]:
    return lambda n: n.op("Slice", n.x(*_FULL), *(n.ints(*v) for v in (starts, ends, axes, steps)))


def _pad(mode: str, pads: list[int], value: float | None = None) -> Callable[[Net], str]:
    def build(n: Net) -> str:
        fill = [] if value is None else [n.const(value)]
        return n.op("Pad", n.x(*_FULL), n.ints(*pads), *fill, mode=mode)

    return build


def _expand(n: Net) -> str:
    return n.op("Expand", n.x(1, 16, 1, 10), n.ints(1, 16, 6, 10))


def _tile(n: Net) -> str:
    return n.op("Tile", n.x(1, 8, 4, 5), n.ints(1, 2, 1, 3))


def _space_to_depth(n: Net) -> str:
    return n.op("SpaceToDepth", n.x(1, 8, 12, 12), blocksize=2)


def _depth_to_space(mode: str) -> Callable[[Net], str]:
    return lambda n: n.op("DepthToSpace", n.x(1, 16, 6, 6), blocksize=2, mode=mode)


def _shuffle(n: Net) -> str:
    y = n.op("Reshape", n.conv(n.x(1, 16, 8, 8), 16, 16), n.ints(1, 4, 4, 8, 8))
    y = n.op("Transpose", y, perm=[0, 2, 1, 3, 4])
    return n.conv(n.op("Reshape", y, n.ints(1, 16, 8, 8)), 16, 16, 1)


def _focus(n: Net) -> str:
    x = n.x(1, 3, 16, 16)
    corners = []
    for h, w in ((0, 0), (1, 0), (0, 1), (1, 1)):
        corners.append(n.op("Slice", x, n.ints(h, w), n.ints(99, 99), n.ints(2, 3), n.ints(2, 2)))
    return n.conv(n.op("Concat", *corners, axis=1), 12, 16)


def _gather(axis: int, indices: Any) -> Callable[[Net], str]:
    return lambda n: n.op("Gather", n.x(*_FULL), n.const(indices, "int64"), axis=axis)


def _embedding(n: Net) -> str:
    return n.op("Gather", n.weight(30, 16), n.x(1, 7, dtype="int64", low=0, high=30), axis=0)


def _gather_elements(n: Net) -> str:
    picks = n.rng.integers(0, 12, (1, 16, 5, 10))
    return n.op("GatherElements", n.x(*_FULL), n.const(picks, "int64"), axis=2)


def _gather_nd(n: Net) -> str:
    return n.op("GatherND", n.x(*_FULL), n.const([[0, 3], [0, 15], [0, 1]], "int64"))


def _scatter_nd(**attributes: Any) -> Callable[[Net], str]:
    return lambda n: n.op(
        "ScatterND", n.x(*_FULL), n.const([[0, 3], [0, 9]], "int64"), n.x(2, 12, 10), **attributes
    )


def _scatter_elements(**attributes: Any) -> Callable[[Net], str]:
    def build(n: Net) -> str:
        picks = np.stack([n.rng.permutation(12)[:3] for _ in range(160)]).reshape(1, 16, 10, 3)
        places = n.const(picks.transpose(0, 1, 3, 2), "int64")
        return n.op("ScatterElements", n.x(*_FULL), places, n.x(1, 16, 3, 10), axis=2, **attributes)

    return build


def _one_hot(n: Net) -> str:
    indices = n.x(1, 6, dtype="int64", low=0, high=8)
    return n.op("OneHot", indices, n.const(8, "int64"), n.const([0.0, 1.0]), axis=-1)


def _reverse_sequence(n: Net) -> str:
    return n.op("ReverseSequence", n.x(6, 1, 8), n.ints(4), time_axis=0, batch_axis=1)


def _trilu(upper: int) -> Callable[[Net], str]:
    return lambda n: n.op("Trilu", n.x(1, 4, 10, 10), n.const(1, "int64"), upper=upper)


def _cumsum(axis: int) -> Callable[[Net], str]:
    return lambda n: n.op("CumSum", n.x(1, 4, 8, 10), n.const(axis, "int64"))


def _pool(kind: str, kernel: int, **attributes: Any) -> Callable[[Net], str]:
    return lambda n: n.op(kind, n.x(*_FULL), kernel_shape=[kernel, kernel], **attributes)


def _global(kind: str) -> Callable[[Net], str]:
    return lambda n: n.op(kind, n.x(1, 24, 9, 7))


def _max_pool_indices(n: Net) -> list[str]:
    return n.ops("MaxPool", 2, n.x(1, 8, 8, 8), kernel_shape=[2, 2], strides=[2, 2])


def _pool1d(kind: str) -> Callable[[Net], str]:
    return lambda n: n.op(kind, n.x(1, 16, 30), kernel_shape=[3], strides=[2], pads=[1, 1])


def _spp(n: Net) -> str:
    x = n.op("Relu", n.conv(n.x(1, 8, 12, 12), 8, 16, 1))
    a = n.op("MaxPool", x, kernel_shape=[5, 5], pads=[2] * 4, strides=[1, 1])
    b = n.op("MaxPool", a, kernel_shape=[5, 5], pads=[2] * 4, strides=[1, 1])
    return n.conv(n.op("Concat", x, a, b, axis=1), 48, 16, 1)


def _resize(scales: tuple[float, float], **attributes: Any) -> Callable[[Net], str]:
    def build(n: Net) -> str:
        return n.op("Resize", n.x(1, 8, 9, 7), "", n.const([1.0, 1.0, *scales]), **attributes)

    return build


def _resize_to(height: int, width: int, **attributes: Any) -> Callable[[Net], str]:
    return lambda n: n.op("Resize", n.x(1, 8, 9, 7), "", "", n.ints(1, 8, height, width), **attributes)


def _grid(mode: str, padding: str, align: int, high: float = 0.0) -> Callable[[Net], str]:
    def build(n: Net) -> str:
        x = n.x(1, 8, 12, 10, low=0.0, high=high)
        grid = n.x(1, 9, 11, 2, low=-1.2, high=1.2)
        return n.op("GridSample", x, grid, mode=mode, padding_mode=padding, align_corners=align)

    return build


def _grid_scaled(n: Net) -> str:
    """The grid comes from a layer of its own, the picture has the range of pixels."""
    x = n.x(1, 5, 8, 8, low=0.0, high=255.0)
    grid = n.op("Mul", n.x(1, 6, 7, 2), n.const(0.7))
    return n.op("GridSample", x, grid, mode="bilinear", padding_mode="zeros", align_corners=0)


def cases() -> Iterator[Case]:
    """All cases of this family."""
    yield Case("reshape_flat", _reshape((1, 16, 6, 5), (1, 480)))
    yield Case("reshape_split", _reshape((1, 16, 6, 5), (1, 4, 24, 5)))
    yield Case("reshape_rank5", _reshape((1, 16, 6, 6), (1, 16, 3, 2, 6)))
    yield Case("reshape_rank1", _reshape((48,), (1, 3, 4, 4)))
    yield Case("flatten", _flatten)
    yield Case("squeeze", _squeeze)
    yield Case("unsqueeze", _unsqueeze)
    for perm in ((0, 2, 3, 1), (0, 3, 1, 2), (0, 1, 3, 2), (0, 2, 1, 3)):
        yield Case(f"transpose_{''.join(map(str, perm))}", _transpose(perm, *_FULL))
    yield Case("transpose_rank3", _transpose((0, 2, 1), 1, 12, 20))
    yield Case("transpose_rank5", _transpose((0, 3, 1, 4, 2), 1, 2, 3, 4, 8))
    for axis in (1, 2, 3):
        yield Case(f"concat_{axis}", _concat(axis))
    yield Case("concat_constant", _concat_constant)
    yield Case("split_channels", _split(1, 8, 8))
    yield Case("split_uneven", _split(1, 3, 13))
    yield Case("split_width", _split(3, 4, 6))
    yield Case("slice_channels", _slice([2], [11], [1], [1]))
    yield Case("slice_step", _slice([0, 1], [12, 10], [2, 3], [2, 3]))
    yield Case("slice_negative", _slice([-1], [-20], [3], [-1]))
    yield Case("pad_constant", _pad("constant", [0, 0, 1, 2, 0, 0, 3, 1]))
    yield Case("pad_value", _pad("constant", [0, 0, 1, 1, 0, 0, 1, 1], 0.5))
    yield Case("pad_channels", _pad("constant", [0, 2, 0, 0, 0, 1, 0, 0]))
    yield Case("pad_reflect", _pad("reflect", [0, 0, 2, 2, 0, 0, 2, 2]))
    yield Case("pad_edge", _pad("edge", [0, 0, 1, 2, 0, 0, 2, 1]))
    yield Case("expand", _expand)
    yield Case("tile", _tile)
    yield Case("space_to_depth", _space_to_depth)
    yield Case("depth_to_space_dcr", _depth_to_space("DCR"))
    yield Case("depth_to_space_crd", _depth_to_space("CRD"))
    yield Case("channel_shuffle", _shuffle)
    yield Case("focus", _focus)
    yield Case("gather_channels", _gather(1, [0, 5, 3, 3]))
    yield Case("gather_width", _gather(3, [[1, 2], [7, 0]]))
    yield Case("gather_scalar", _gather(2, 4))
    yield Case("gather_embedding", _embedding)
    yield Case("gather_elements", _gather_elements)
    yield Case("gather_nd", _gather_nd)
    yield Case("scatter_nd", _scatter_nd(), 16)
    yield Case("scatter_nd_add", _scatter_nd(reduction="add"), 16)
    yield Case("scatter_elements", _scatter_elements())
    yield Case("scatter_elements_add", _scatter_elements(reduction="add"), 16)
    yield Case("one_hot", _one_hot)
    yield Case("reverse_sequence", _reverse_sequence)
    yield Case("trilu_upper", _trilu(1), 14)
    yield Case("trilu_lower", _trilu(0), 14)
    yield Case("cumsum_w", _cumsum(3))
    yield Case("cumsum_c", _cumsum(1))
    yield Case("maxpool_2", _pool("MaxPool", 2, strides=[2, 2]))
    yield Case("maxpool_3_pad", _pool("MaxPool", 3, strides=[2, 2], pads=[1] * 4))
    yield Case("maxpool_ceil", _pool("MaxPool", 3, strides=[2, 2], ceil_mode=1))
    yield Case("maxpool_dilated", _pool("MaxPool", 3, dilations=[2, 2]))
    yield Case("maxpool_9", _pool("MaxPool", 9, strides=[1, 1], pads=[4] * 4))
    yield Case("maxpool_indices", _max_pool_indices, 13, Judge.STEPS)
    yield Case("maxpool_1d", _pool1d("MaxPool"))
    yield Case("averagepool_2", _pool("AveragePool", 2, strides=[2, 2]))
    yield Case("averagepool_3_pad", _pool("AveragePool", 3, strides=[1, 1], pads=[1] * 4))
    yield Case("averagepool_3_include", _pool("AveragePool", 3, pads=[1] * 4, count_include_pad=1))
    yield Case("averagepool_ceil", _pool("AveragePool", 3, strides=[2, 2], ceil_mode=1))
    yield Case("averagepool_1d", _pool1d("AveragePool"))
    yield Case("lppool", _pool("LpPool", 3, strides=[2, 2], p=2))
    yield Case("global_average", _global("GlobalAveragePool"))
    yield Case("global_max", _global("GlobalMaxPool"))
    yield Case("global_lp", _global("GlobalLpPool"))
    yield Case("spp", _spp)
    for where in ("asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel"):
        yield Case(
            f"resize_linear_{where}", _resize((2.0, 2.0), mode="linear", coordinate_transformation_mode=where)
        )
        yield Case(
            f"resize_nearest_{where}",
            _resize((2.0, 3.0), mode="nearest", coordinate_transformation_mode=where),
        )
    nearest = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}
    for how in ("floor", "ceil", "round_prefer_ceil"):
        yield Case(f"resize_nearest_{how}", _resize((1.5, 1.5), nearest_mode=how, **nearest))
    yield Case(
        "resize_nearest_tf",
        _resize((2, 2), mode="nearest", coordinate_transformation_mode="tf_half_pixel_for_nn"),
    )
    yield Case(
        "resize_linear_down", _resize_to(5, 4, mode="linear", coordinate_transformation_mode="half_pixel")
    )
    yield Case(
        "resize_linear_to_13x20",
        _resize_to(13, 20, mode="linear", coordinate_transformation_mode="align_corners"),
    )
    yield Case("resize_cubic", _resize((2.0, 2.0), mode="cubic"))
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            align = int(padding == "border")
            judge = Judge.STEPS if mode == "nearest" else Judge.CLOSE
            yield Case(f"grid_{mode}_{padding}", _grid(mode, padding, align), 16, judge)
    yield Case("grid_bilinear_zeros_align", _grid("bilinear", "zeros", 1), 16)
    yield Case("grid_bilinear_pixels", _grid("bilinear", "zeros", 0, 255.0), 16)
    yield Case("grid_bilinear_scaled", _grid_scaled, 16)
