"""Models of the double that several tests use, and what they compute, in numpy."""

from __future__ import annotations

import numpy as np

IMAGE = "input image int8 4 1 4 6 3 0.5 -3"
SCORES = "output scores int8 2 1 10 0.25 5"
AFFINE = (IMAGE, SCORES, "op affine 2 1")
"""uint8 picture 4x6x3 (NHWC) -> 10 scores: 2 * input + 1, elements in NCHW order."""
NATIVE = ("input image int8 4 1 4 6 3 0.5 -3", "output map int8 4 1 3 4 6 0.5 -3 native", "op affine 1 0")
"""An identity whose output the NPU keeps as NC1HWC2."""
FLOATS = ("input x float16 4 1 3 5 7", "output y float16 4 1 7 3 5 native", "op affine 1 0.5")
"""Float16 with 7 channels: NC1HWC2 on both sides."""
TWO = (
    "input image int8 4 1 4 6 3 0.5 -3",
    "input state float16 2 1 8",
    "output map int8 4 1 3 4 6 0.5 -3",
    "output next float16 2 1 8",
    "op affine 1 0",
)
DYNAMIC = (
    "input image int8 4 1 4 6 3 0.5 -3",
    "input extra float16 2 1 4",
    "output map int8 4 1 3 4 6 0.5 -3 native",
    "shape 1 4 6 3 1 4 -> 1 3 4 6",
    "shape 1 8 12 3 1 6 -> 1 3 8 12",
    "op affine 1 0",
)


def picture(seed: int = 0, shape: tuple[int, ...] = (1, 4, 6, 3)) -> np.ndarray:
    """A uint8 image, NHWC."""
    return np.random.default_rng(seed).integers(0, 60, shape, dtype=np.uint8)


def stored(real: np.ndarray, scale: float, zero: int) -> np.ndarray:
    """Real values as an int8 tensor stores them."""
    return np.clip(np.rint(np.float32(real) / np.float32(scale)) + zero, -128, 127).astype(np.int8)


def real(quantised: np.ndarray, scale: float, zero: int) -> np.ndarray:
    """What ``want_float`` makes of stored elements."""
    return (quantised.astype(np.float32) - zero) * np.float32(scale)


def scores_stored(image: np.ndarray) -> np.ndarray:
    """The output of AFFINE as the NPU stores it."""
    seen = real(stored(image.transpose(0, 3, 1, 2), 0.5, -3), 0.5, -3).ravel()[:10]
    return stored(2 * seen + 1, 0.25, 5).reshape(1, 10)


def scores(image: np.ndarray) -> np.ndarray:
    """The output of AFFINE, float32."""
    return real(scores_stored(image), 0.25, 5)


def identity(image: np.ndarray) -> np.ndarray:
    """What NATIVE, TWO and DYNAMIC make of a picture (NHWC): float32, NCHW."""
    return real(stored(image.transpose(0, 3, 1, 2), 0.5, -3), 0.5, -3)
