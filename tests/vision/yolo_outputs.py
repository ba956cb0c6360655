"""Outputs of YOLO networks of 160 x 128 pixels, made from a seed: what decoders here and those of others are both given."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from rknnlite_vision.heads.stored import sigmoid

from rknnlite.tensor import DType, Layout, QuantParams, TensorAttr

Array = NDArray[Any]
SIZE = (160, 128)
STRIDES = (8, 16, 32)
GRIDS = [(SIZE[1] // s, SIZE[0] // s) for s in STRIDES]
CELLS = sum(h * w for h, w in GRIDS)
CLASSES, BINS, POINTS, PROTOTYPES = 5, 16, 17, 32


def images(batch: int) -> list[TensorAttr]:
    """The input of a network that takes so many pictures."""
    return [TensorAttr(0, "images", (batch, SIZE[1], SIZE[0], 3), DType.UINT8, Layout.NHWC)]


IMAGE = images(1)


def normal(seed: int, *shape: int, scale: float = 1.0, middle: float = 0.0) -> Array:
    """Random float32."""
    return (np.random.default_rng(seed).standard_normal(shape) * scale + middle).astype(np.float32)


def logits(seed: int, classes: int = CLASSES) -> Array:
    """[1, classes, cells] before the sigmoid, of which a part passes."""
    return normal(seed, 1, classes, CELLS, scale=2.0, middle=-4.5)


def bins(seed: int, count: int = BINS) -> Array:
    """[1, 4 * count, cells]: sides, or distributions of them."""
    random = normal(seed, 1, 4 * count, CELLS, scale=1.5)
    return np.abs(random) + 0.5 if count == 1 else random


def split(flat: Array) -> list[Array]:
    """[1, channels, cells] as one map per stride."""
    ends = np.cumsum([h * w for h, w in GRIDS])[:-1]
    parts = np.split(flat, ends, axis=2)
    return [part.reshape(1, -1, h, w) for part, (h, w) in zip(parts, GRIDS)]


def separate(seed: int = 1, count: int = BINS, sums: bool = True) -> list[Array]:
    """Sides, scores, and their sum, of each stride."""
    outputs = []
    for sides, table in zip(split(bins(seed, count)), split(logits(seed + 1))):
        scores = sigmoid(table)
        outputs += [sides, scores, scores.sum(axis=1, keepdims=True).clip(0, 1)][: 3 if sums else 2]
    return outputs


def joined(seed: int = 1, classes: int = CLASSES) -> list[Array]:
    """Sides and scores before the sigmoid in one map of each stride."""
    return split(np.concatenate([bins(seed), logits(seed + 1, classes)], axis=1))


def masked(seed: int = 1) -> list[Array]:
    """``separate`` with coefficients, and prototypes."""
    outputs: list[Array] = []
    maps = separate(seed)
    for number, weights in enumerate(split(normal(seed + 2, 1, PROTOTYPES, CELLS))):
        outputs += [*maps[3 * number : 3 * number + 3], weights]
    return [*outputs, prototypes(seed)]


def prototypes(seed: int = 1) -> Array:
    """[1, 32, 32, 40]."""
    return normal(seed + 3, 1, PROTOTYPES, SIZE[1] // 4, SIZE[0] // 4)


def points(seed: int = 1) -> Array:
    """[1, 17, 3, cells] of keypoints in pixels, with scores."""
    table = np.random.default_rng(seed + 4).random((1, POINTS, 3, CELLS)).astype(np.float32)
    return table * np.array([SIZE[0], SIZE[1], 1], np.float32)[:, None]


def angles(seed: int = 1) -> Array:
    """[1, 1, cells], 0 to 1."""
    return np.random.default_rng(seed + 5).random((1, 1, CELLS)).astype(np.float32)


def anchored(seed: int = 1, activated: bool = True) -> list[Array]:
    """[1, 3 * (5 + classes), h, w] of each stride."""
    maps = split(normal(seed, 1, 3 * (5 + CLASSES), CELLS, scale=2.0, middle=-1.0))
    return [sigmoid(m) for m in maps] if activated else maps


def anchored_weights(seed: int = 1) -> list[Array]:
    """[1, 3 * 32, h, w] coefficients of masks of each stride."""
    return split(normal(seed + 6, 1, 3 * PROTOTYPES, CELLS))


def centres(seed: int, count: int) -> Array:
    """[1, 4, count]: middles and sizes in pixels."""
    random = np.random.default_rng(seed).random((1, 4, count)).astype(np.float32)
    scale = np.array([*SIZE, SIZE[0] / 3, SIZE[1] / 3], np.float32)[:, None]
    return random * scale + np.array([0, 0, 4, 4], np.float32)[:, None]


def table(seed: int = 1, classes: int = CLASSES, more: Array | None = None) -> Array:
    """[1, 4 + classes + more, cells]."""
    parts = [centres(seed, CELLS), sigmoid(logits(seed + 1, classes))]
    return np.concatenate(parts + ([] if more is None else [more]), axis=1)


def with_objectness(seed: int = 1, anchors: int = 3, more: Array | None = None) -> Array:
    """[1, anchors * cells, 5 + classes + more]."""
    count = anchors * CELLS
    scores = sigmoid(normal(seed + 1, 1, 1 + CLASSES, count, scale=2.0, middle=-1.0))
    parts = [centres(seed, count), scores] + ([] if more is None else [more])
    return np.ascontiguousarray(np.concatenate(parts, axis=1).transpose(0, 2, 1))


def table_weights(seed: int = 1) -> Array:
    """[1, 32, 3 * cells] coefficients of masks."""
    return normal(seed + 7, 1, PROTOTYPES, 3 * CELLS)


def rows(seed: int = 1, more: int = 0) -> Array:
    """[1, 300, 6 + more], best first."""
    random = np.random.default_rng(seed)
    corners = np.sort(random.random((300, 2, 2)), axis=1) * SIZE
    scores = np.sort(random.random((300, 1)), axis=0)[::-1] * 0.6
    kinds = random.integers(CLASSES, size=(300, 1))
    found = np.concatenate(
        [corners.reshape(300, 4), scores, kinds, random.random((300, more)) * 2 - 0.5], axis=1
    )
    return found[None].astype(np.float32)


def attributes(outputs: list[Array], quants: list[QuantParams] | None = None) -> list[TensorAttr]:
    """What a network tells of such outputs; floats without ``quants``."""
    return [
        TensorAttr(
            n,
            f"output{n}",
            array.shape,
            DType.from_numpy(array.dtype),
            Layout.NCHW if array.ndim == 4 else Layout.UNDEFINED,
            quants[n] if quants else None,
        )
        for n, array in enumerate(outputs)
    ]


def quantised(outputs: list[Array], dtype: str = "int8") -> tuple[list[Array], list[QuantParams]]:
    """As a quantised network stores them: each with the scale that its own numbers need."""
    limits = np.iinfo(dtype)
    stored, quants = [], []
    for array in outputs:
        low, high = min(0.0, float(array.min())), max(0.0, float(array.max()))
        scale = (high - low) / (limits.max - limits.min)
        zero = round(limits.min - low / scale)
        quants.append(QuantParams(scale, zero))
        stored.append(
            np.clip(np.round(array / np.float32(scale)) + zero, limits.min, limits.max).astype(dtype)
        )
    return stored, quants
