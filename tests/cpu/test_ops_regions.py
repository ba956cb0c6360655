"""Pooling over boxes, unpooling, quantisation in the graph and limits that are computed: against plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rknnlite.errors import ModelUnsupported, RknnError
from rknnlite.tensor import DType, QuantParams
from tests.support import swept
from tests.support.corpus import open_cpu
from tests.support.graphs import compute, constant, one_node, run, tensor

rng = np.random.default_rng(41)
BOXES = np.array(
    [[1, 1.5, 8, 7], [0, 0, 14, 9], [2.6, 0.8, 4.6, 8.3], [5, 6, 5.5, 6.2], [-3, -2, 4, 5], [9, 4, 20, 15]]
)


def bilinear(x: np.ndarray, y: float, z: float) -> np.ndarray:
    """One sample of [C, H, W]."""
    _, h, w = x.shape
    if y < -1 or y > h or z < -1 or z > w:
        return np.zeros(x.shape[0])
    y, z = min(max(y, 0), h - 1), min(max(z, 0), w - 1)
    top, left = int(y), int(z)
    bottom, right = min(top + 1, h - 1), min(left + 1, w - 1)
    below, beside = y - top, z - left
    upper = x[:, top, left] * (1 - beside) + x[:, top, right] * beside
    lower = x[:, bottom, left] * (1 - beside) + x[:, bottom, right] * beside
    return upper * (1 - below) + lower * below


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize(("ratio", "scale"), [(2, 1.0), (0, 1.0), (3, 0.5)])
def test_roi_align(half: bool, ratio: int, scale: float) -> None:
    x, items = rng.standard_normal((2, 3, 10, 13)).astype(np.float32), [0, 1, 1, 0, 0, 1]
    boxes, (height, width) = BOXES.astype(np.float32), (3, 5)
    wanted = np.zeros((6, 3, height, width))
    for n, (left, top, right, bottom) in enumerate(boxes.astype(np.float64) * scale - 0.5 * half):
        tall, wide = (bottom - top, right - left) if half else (max(bottom - top, 1), max(right - left, 1))
        rows, columns = (ratio or math.ceil(size / count) for size, count in ((tall, height), (wide, width)))
        for i, j in np.ndindex(height, width):
            samples = [
                bilinear(x[items[n]], top + (i + (a + 0.5) / rows) * tall / height, left + (j + (b + 0.5) / columns) * wide / width)
                for a in range(rows)
                for b in range(columns)
            ]  # fmt: skip
            wanted[n, :, i, j] = np.mean(samples, axis=0)
    attrs = {"sampling_ratio": ratio, "spatial_scale": scale, "output_height": height, "output_width": width}
    attrs["coordinate_transformation_mode"] = "half_pixel" if half else "output_half_pixel"
    found = compute("RoiAlign", [x, boxes], wanted.shape, attrs, constants=[np.array(items, np.int64)])
    assert np.allclose(found, wanted, atol=2e-5)


def test_max_roi_pool() -> None:
    x = rng.standard_normal((2, 3, 10, 13)).astype(np.float32)
    boxes = np.concatenate([[[0], [1], [1], [0], [0], [1]], BOXES], axis=1).astype(np.float32)
    wanted = np.zeros((6, 3, 4, 3), np.float32)
    for n, (item, *corners) in enumerate(boxes.tolist()):
        left, top, right, bottom = (math.floor(abs(v) + 0.5) * math.copysign(1, v) for v in corners)
        tall, wide = max(bottom - top + 1, 1) / 4, max(right - left + 1, 1) / 3
        for i, j in np.ndindex(4, 3):
            rows = [r for r in range(10) if math.floor(i * tall) + top <= r < math.ceil((i + 1) * tall) + top]
            columns = [
                c for c in range(13) if math.floor(j * wide) + left <= c < math.ceil((j + 1) * wide) + left
            ]
            if rows and columns:
                wanted[n, :, i, j] = x[int(item)][:, rows][:, :, columns].max(axis=(1, 2))
    found = compute("MaxRoiPool", [x, boxes], wanted.shape, {"pooled_shape": [4, 3], "spatial_scale": 1.0})
    assert np.array_equal(found, wanted)


def test_max_unpool() -> None:
    x, places = np.array([[[[5.0, 6.0], [7.0, 8.0]]]], np.float32), np.array([[[[1, 6], [12, 11]]]])
    found = compute("MaxUnpool", [x], (1, 1, 3, 5), {}, constants=[places])
    wanted = np.zeros(15)
    wanted[[1, 6, 12, 11]] = [5, 6, 7, 8]
    assert np.array_equal(found.reshape(-1), wanted)


@pytest.mark.parametrize(
    ("op", "operands", "shape", "attrs", "text"),
    [
        ("RoiAlign", [np.zeros((1, 4)), np.array([2])], (1, 2, 3, 3), {}, "item 2 of a batch of 1"),
        ("RoiAlign", [np.array([[0, 0, 1e12, 1]]), np.array([0])], (1, 2, 3, 3), {}, r"a box of (1e.12|9999|1000)"),
        ("RoiAlign", [np.array([[0, 0, np.nan, 1]]), np.array([0])], (1, 2, 3, 3), {}, "a box of nan elements"),
        ("RoiAlign", [np.zeros((1, 4)), np.array([0])], (1, 2, 3, 3), {"mode": "max"}, "mode 'max'"),
        ("MaxRoiPool", [np.array([[0, 0, 0, 1e9, 1]])], (1, 2, 3, 3), {}, "a box with the corner 1000000000"),
        ("MaxUnpool", [np.full((1, 2, 4, 4), 99)], (1, 2, 4, 5), {}, "places 99 to 99 in an output of 40"),
    ],
)  # fmt: skip
def test_boxes_that_are_nowhere(op: str, operands: list, shape: tuple, attrs: dict, text: str) -> None:
    stored = [v.astype(np.float32) if v.ndim == 2 else v for v in operands]
    with pytest.raises(RknnError, match=f'{op} "the_{op.lower()}".*{text}'):
        compute(op, [np.zeros((1, 2, 4, 4), np.float32)], shape, attrs, constants=stored)


def test_the_mini_format_does_not_say_where_elements_lie() -> None:
    """It leaves out ``coordinate_transformation_mode``, and half an element decides: refused, not guessed."""
    archive = swept.FOLDER / "roi_align_half_pixel.tar.xz"
    with pytest.raises(ModelUnsupported, match=r"RoiAlign.*attributes="):
        open_cpu(swept.model("roi_align_half_pixel", "rv1106.i8"))
    told = {"RoiAlign": {"coordinate_transformation_mode": "half_pixel"}}
    with open_cpu(swept.model("roi_align_half_pixel", "rv1106.i8"), extra={"attributes": told}) as context:
        (found,) = context.infer(*swept.arrays(archive, "in"))
    (wanted,) = swept.arrays(archive, "rv1106.i8.out")
    assert np.abs(found - wanted).max() <= 1.01 * context.outputs[0].quant.scale  # type: ignore[union-attr]


def test_limits_that_the_network_computes() -> None:
    x = rng.uniform(-4, 4, (2, 3)).astype(np.float32)
    found = compute("Clip", [x, np.array([-1.0], np.float32), np.array(2.5, np.float32)], x.shape)
    assert np.array_equal(found, np.clip(x, -1, 2.5))
    assert np.array_equal(compute("Clip", [x, np.array([-1.0], np.float32)], x.shape), np.maximum(x, -1))


def test_quantisation_in_the_graph() -> None:
    x = rng.uniform(-3, 3, (1, 4, 5, 2)).astype(np.float32)
    steps, zeros = np.array([0.1, 0.02, 0.3, 0.05], np.float32), np.array([0, 3, -5, 1], np.int8)
    wide = (steps.reshape(1, 4, 1, 1), zeros.reshape(1, 4, 1, 1).astype(np.float32))
    stored = np.clip(np.rint(x / wide[0]) + wide[1], -128, 127)
    real, whole = tensor("x", x.shape), tensor("y", x.shape, DType.INT8)
    parameters = [constant(steps), constant(zeros)]
    (found,) = run(one_node("QuantizeLinear", [real, *parameters], [whole], {"axis": 1}), x)
    assert np.array_equal(found, stored)
    real, whole = tensor("x", x.shape), tensor("y", x.shape, DType.INT8)
    (found,) = run(one_node("DequantizeLinear", [whole, *parameters], [real], {"axis": 1}), stored)
    assert np.allclose(found, (stored - wide[1]) * wide[0])
    real, carried = tensor("x", x.shape), tensor("q", x.shape, DType.INT8, QuantParams(0.02, 3))
    (found,) = run(
        one_node("QuantizeLinear", [real, constant(np.float32(0.02)), constant(np.int8(3))], [carried]), x
    )
    assert np.allclose(found, np.clip(np.rint(x / np.float32(0.02)), -131, 124) * 0.02)
