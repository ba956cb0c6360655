"""Heads with element types, layouts, zero points, batches and sizes by chance, beside decoders that go cell by cell in float64."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from rknnlite_vision.heads.head import Limits
from rknnlite_vision.heads.recognise import recognise
from rknnlite_vision.heads.yolo_anchors import ANCHORS

from rknnlite.tensor import DType, Layout, QuantParams, TensorAttr

Array = NDArray[Any]
Found = list[tuple[float, ...]]
"""Score, class, corners of each box."""
STRIDES = (8, 16, 32)
LEAST = 0.25
ALL = Limits(score=LEAST, overlap=1.0, most=100_000, across=True)
TYPES = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16, DType.INT8, DType.UINT8, DType.INT16)


class Case(NamedTuple):
    """Real outputs of a network, channels first, for which picture size, hint, and what decodes one picture's."""

    outputs: list[Array]
    size: tuple[int, int]
    hint: str
    decode: Any
    joined: bool = False  # places and scores share an output


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def cells(size: tuple[int, int]) -> list[tuple[int, int, int]]:
    """Stride, row and column of each cell."""
    return [(s, y, x) for s in STRIDES for y in range(size[1] // s) for x in range(size[0] // s)]


def random_scores(random: np.random.Generator, *shape: int) -> Array:
    """Some pass; none of them 1."""
    return random.random(shape) ** 6 * 0.95


def sides_case(random: np.random.Generator, size: tuple[int, int], batch: int) -> Case:
    """Distances of each side, or distributions of them, scores, and perhaps their sum."""
    classes, bins, sums = int(random.integers(1, 8)), int(random.choice([1, 16, 17])), random.random() < 0.5
    outputs = []
    for s in STRIDES:
        shape = (size[1] // s, size[0] // s)
        scores = random_scores(random, batch, classes, *shape)
        sides = random.random((batch, 4 * bins, *shape)) * 4 + (0.5 if bins == 1 else -2)
        sides[:, 0] += 4  # what tells 4 sides from 4 scores
        outputs += [sides, scores] + ([scores.sum(axis=1, keepdims=True)] if sums else [])

    def decode(real: list[Array]) -> Found:
        found = []
        for s, y, x in cells(size):
            at = (2 + sums) * STRIDES.index(s)
            table = real[at][:, y, x].reshape(4, bins)
            reach = [
                float(np.exp(row) @ np.arange(bins) / np.exp(row).sum()) if bins > 1 else row[0]
                for row in table
            ]
            kind = int(real[at + 1][:, y, x].argmax())
            left, top, right, low = reach
            box = x + 0.5 - left, y + 0.5 - top, x + 0.5 + right, y + 0.5 + low
            found.append((real[at + 1][kind, y, x], kind, *(s * side for side in box)))
        return found

    return Case(outputs, size, "yolov6" if bins != 16 else "yolov8", decode)


def anchors_case(random: np.random.Generator, size: tuple[int, int], batch: int) -> Case:
    """Three boxes about anchors in each cell."""
    classes, family = int(random.integers(1, 6)), ("yolov5", "yolov7")[random.integers(2)]
    shapes = [(batch, 3 * (5 + classes), size[1] // s, size[0] // s) for s in STRIDES]
    outputs = [random.random(shape) * 0.999 for shape in shapes]

    def decode(real: list[Array]) -> Found:
        found = []
        for s, y, x in cells(size):
            level = STRIDES.index(s)
            for anchor, numbers in zip(ANCHORS[family][level], real[level][:, y, x].reshape(3, -1)):
                kind = int(numbers[5:].argmax())
                cx, cy = (2 * numbers[0] - 0.5 + x) * s, (2 * numbers[1] - 0.5 + y) * s
                w, h = (2 * numbers[2]) ** 2 * anchor[0], (2 * numbers[3]) ** 2 * anchor[1]
                found.append(
                    (numbers[4] * numbers[5 + kind], kind, cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2)
                )
        return found

    return Case(outputs, size, family, decode)


def yolox_case(random: np.random.Generator, size: tuple[int, int], batch: int) -> Case:
    """Centres from the corner of a cell, logarithms of sizes."""
    classes = int(random.integers(1, 6))
    outputs = [random.random((batch, 5 + classes, size[1] // s, size[0] // s)) * 0.999 for s in STRIDES]

    def decode(real: list[Array]) -> Found:
        found = []
        for s, y, x in cells(size):
            numbers = real[STRIDES.index(s)][:, y, x]
            kind = int(numbers[5:].argmax())
            cx, cy, w, h = numbers[0] + x, numbers[1] + y, math.exp(numbers[2]), math.exp(numbers[3])
            corners = cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2
            found.append((numbers[4] * numbers[5 + kind], kind, *(s * side for side in corners)))
        return found

    return Case(outputs, size, "yolox", decode)


def table_case(random: np.random.Generator, size: tuple[int, int], batch: int) -> Case:
    """Centres and sizes in pixels above the scores; floats, or integers of 16 bits."""
    classes, count = int(random.integers(1, 8)), len(cells(size))
    boxes = random.random((batch, 4, count)) * np.array([*size, *size])[:, None]
    outputs = [np.concatenate([boxes, random_scores(random, batch, classes, count)], axis=1)]

    def decode(real: list[Array]) -> Found:
        found = []
        for x, y, w, h, *scores in real[0].T:
            kind = int(np.argmax(scores))
            found.append((scores[kind], kind, x - w / 2, y - h / 2, x + w / 2, y + h / 2))
        return found

    return Case(outputs, size, "yolov8", decode, joined=True)


def objects_case(random: np.random.Generator, size: tuple[int, int], batch: int) -> Case:
    """Rows of centre, size, objectness and scores, three for each cell."""
    classes, count = int(random.integers(1, 6)), 3 * len(cells(size))
    boxes = random.random((batch, count, 4)) * np.array([*size, *size])
    outputs = [np.concatenate([boxes, random.random((batch, count, 1 + classes)) * 0.999], axis=2)]

    def decode(real: list[Array]) -> Found:
        found = []
        for x, y, w, h, thing, *scores in real[0]:
            kind = int(np.argmax(scores))
            found.append((thing * scores[kind], kind, x - w / 2, y - h / 2, x + w / 2, y + h / 2))
        return found

    return Case(outputs, size, "yolov5", decode, joined=True)


CASES = (sides_case, anchors_case, yolox_case, table_case, objects_case)


def stored(array: Array, dtype: DType) -> tuple[Array, QuantParams | None, Array]:
    """As a network of that element type stores it, and the real numbers that this means."""
    single = array.astype(np.float32)
    if dtype == DType.BFLOAT16:
        bits = (single.view(np.uint32) >> 16).astype(np.uint16)
        return bits, None, (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if dtype.is_float:
        kept = single.astype(dtype.numpy)
        return kept, None, kept.astype(np.float64)
    limits = np.iinfo(dtype.numpy.str)
    low, high = min(0.0, float(array.min())), max(0.0, float(array.max()))
    scale = float(np.float32((high - low) / (limits.max - limits.min)))
    zero = round(limits.min - low / scale)
    whole = np.clip(np.round(array / scale) + zero, limits.min, limits.max).astype(dtype.numpy)
    return whole, QuantParams(scale, zero), (whole.astype(np.float64) - zero) * scale


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(50, 300, 50))]
)
def test_a_head_by_chance_decodes_as_the_slow_one(first: int) -> None:
    assert sum(check(seed) for seed in range(first, first + 50)) > 100


def check(seed: int) -> int:
    """How many boxes both find; raises AssertionError where they differ."""
    random = np.random.default_rng(seed)
    batch = int(random.integers(1, 4))
    width, height = (int(n) * 32 for n in random.integers(2, 5, 2))
    case = CASES[seed % len(CASES)](random, (width, height), batch)
    kinds = (DType.FLOAT32, DType.INT16) if case.joined else TYPES
    dtype = kinds[random.integers(len(kinds))]
    attrs, outputs, real = [], [], []
    for number, array in enumerate(case.outputs):
        kept, quant, meant = stored(array, dtype)
        last = kept.ndim == 4 and bool(random.integers(2))
        kept = np.ascontiguousarray(kept.transpose(0, 2, 3, 1)) if last else kept
        layout = Layout.UNDEFINED if kept.ndim == 3 else Layout.NHWC if last else Layout.NCHW
        attrs.append(TensorAttr(number, f"output{number}", kept.shape, dtype, layout, quant))
        outputs.append(kept)
        real.append(meant)
    image = TensorAttr(0, "images", (batch, height, width, 3), DType.UINT8, Layout.NHWC)
    results = recognise([image], attrs, case.hint).decode(outputs, ALL)
    assert len(results) == batch
    for picture, found in enumerate(results):
        wanted = [row for row in case.decode([array[picture] for array in real]) if row[0] >= LEAST - 1e-6]
        same([(s, k, *box) for s, k, box in zip(found.scores, found.classes, found.boxes.tolist())], wanted)
    return sum(map(len, results))


def same(found: Found, wanted: Found) -> None:
    """Each has its like; a score within a millionth of the least one may be there or not."""
    assert len([row for row in wanted if row[0] >= LEAST + 1e-6]) <= len(found) <= len(wanted)
    left = np.array(wanted).reshape(-1, 6)
    for row in found:
        near = np.abs(left - np.array(row, np.float64)) <= [1e-5, 0.01, *[0.02] * 4]
        rows = np.flatnonzero(near.all(axis=1))
        assert len(rows), (row, left[np.abs(left[:, 0] - row[0]).argsort()[:3]])
        left = np.delete(left, rows[0], axis=0)
