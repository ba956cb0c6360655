"""Heads of maps in 8 bits with sizes, numbers and limits by chance, decoded by the library and with numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from rknnlite_vision.heads.compiled_sides import CompiledSides
from rknnlite_vision.heads.head import Limits
from rknnlite_vision.heads.seen import Seen
from rknnlite_vision.heads.yolo_sides import Sides, Stride

from rknnlite.tensor import DType, Layout, QuantParams, TensorAttr

__all__ = ["check"]

Array = NDArray[Any]


def numbers(random: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    """Anything, or the least and greatest alone, or all the same."""
    limits = np.iinfo(dtype.numpy.str)
    way = random.integers(4)
    if way == 0:
        return np.full(shape, random.integers(limits.min, limits.max + 1), dtype.numpy)
    if way == 1:
        return random.choice(np.array([limits.min, limits.max], dtype.numpy), shape)
    return random.integers(limits.min, limits.max + 1, shape, dtype.numpy)


def head(random: np.random.Generator) -> tuple[Sides, list[Array]]:
    """A head of one to four strides, and its outputs."""
    width, height = (int(n) for n in random.integers(1, 6, 2) * 64)
    classes, bins = int(random.integers(1, 91)), int(random.choice([1, 16, 17]))
    sums, logits, dtype = (
        random.random() < 0.5,
        random.random() < 0.3,
        (DType.INT8, DType.UINT8)[random.integers(2)],
    )
    first, last = np.sort(random.integers(0, 4, 2))
    strides = [8 << n for n in range(first, last + 1)]
    attrs, outputs = [], []
    for stride in strides:
        for number, channels in enumerate((4 * bins, classes, 1)[: 2 + sums]):
            dims = (1, channels, height // stride, width // stride)
            if number == 0 or logits:
                quant = QuantParams(float(random.choice([1 / 255, 0.05, 0.3])), int(random.integers(0, 100)))
            else:
                quant = QuantParams(
                    float(random.choice([1 / 250, 1 / 180])), int(np.iinfo(dtype.numpy.str).min)
                )
            attrs.append(TensorAttr(len(attrs), f"o{len(attrs)}", dims, dtype, Layout.NCHW, quant))
            outputs.append(numbers(random, dims, dtype))
    image = TensorAttr(0, "image", (1, height, width, 3), DType.UINT8, Layout.NHWC)
    seen = Seen([image], attrs)
    maps = {m.index: m for m in seen.maps}
    each = 2 + sums
    found = [
        Stride(maps[n], maps[n + 1], maps[n + 2] if sums else None, logits=logits)
        for n in range(0, len(attrs), each)
    ]
    return Sides(seen, found, "any"), outputs


def check(seed: int) -> int:
    """How many boxes both find; raises AssertionError where they differ.

    Which of two boxes stays may hang on the last bit of their overlap, so boxes are compared where none is suppressed.
    """
    random = np.random.default_rng(seed)
    seen, outputs = head(random)
    score, most = float(random.choice([-1, 0.01, 0.25, 0.6, 2])), int(random.choice([1, 7, 300, 100_000]))
    compiled = CompiledSides(seen.strides, len(outputs))
    assert CompiledSides.fits(seen.strides)
    crowded = Limits(score, float(random.random()), most, bool(random.integers(2)))
    rows = compiled.best(outputs, crowded)
    assert rows is not None and len(rows) <= most and np.isfinite(rows[:, 4]).all()
    limits = Limits(score, np.inf, most)
    for array in outputs[::2]:
        array.setflags(write=False)  # as a context may hand them out
    rows = compiled.best(outputs, limits)
    assert rows is not None
    with np.errstate(over="ignore"):
        wanted = seen._boxes(outputs, limits)
    order = np.argsort(-wanted.scores, kind="stable")[:most]
    kinds, places = rows.view(np.int32)[:, 5:].T
    np.testing.assert_array_equal(rows[:, 4], wanted.scores[order])
    np.testing.assert_array_equal(kinds, wanted.classes[order])
    np.testing.assert_array_equal(places, wanted.places[order])
    np.testing.assert_allclose(rows[:, :4], wanted.boxes[order], rtol=1e-4, atol=1e-2)
    return len(rows)
