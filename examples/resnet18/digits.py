#!/usr/bin/env python3
"""Pictures of handwritten digits: scikit-learn's 8x8 digits, enlarged and composed onto coloured paper."""

from __future__ import annotations

import signal

import cv2
import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]
HELD_OUT = 360
SEED = 20


def load_split() -> tuple[NDArray, NDArray, NDArray, NDArray]:
    """(training digits, training labels, held-out digits, held-out labels); digits are 8x8, 0..1."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    data = load_digits()
    digits = (data.images / 16).astype(np.float32)
    a, b, la, lb = train_test_split(
        digits, data.target, test_size=HELD_OUT, stratify=data.target, random_state=SEED
    )
    return a, la, b, lb


def compose(digit: NDArray, size: int, rng: np.random.Generator) -> Image:
    """One RGB picture (size x size x 3): the digit moved, turned, scaled, in one colour on a shaded other."""
    side = size * rng.uniform(0.6, 0.95)
    matrix = cv2.getRotationMatrix2D((3.5, 3.5), rng.uniform(-12, 12), side / 8)
    free = (size - side) / 2
    matrix[:, 2] += size / 2 - 3.5 + rng.uniform(-free, free, 2)
    ink = cv2.warpAffine(digit, matrix, (size, size), flags=cv2.INTER_CUBIC).clip(0, 1)[..., None]

    dark, light = rng.uniform(0, 90, 3), rng.uniform(150, 255, 3)
    paper, pen = (light, dark) if rng.random() < 0.5 else (dark, light)
    ramp = np.linspace(-1, 1, size, dtype=np.float32)
    shade = rng.uniform(-15, 15) * ramp[:, None, None] + rng.uniform(-15, 15) * ramp[None, :, None]
    picture = paper * (1 - ink) + pen * ink + shade
    return np.rint(picture.clip(0, 255)).astype(np.uint8)


def pictures(digits: NDArray, size: int, seed: int) -> Image:
    """One composed picture per digit, always the same ones for a seed: N x size x size x 3, RGB."""
    rng = np.random.default_rng(seed)
    return np.stack([compose(digit, size, rng) for digit in digits])


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads our output may have enough of it
    import sys

    # digits.py OUT.png SIZE N: picture of held-out digit number N
    target, side, number = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    _, _, held, held_labels = load_split()
    cv2.imwrite(
        target, cv2.cvtColor(pictures(held[number : number + 1], side, SEED + number)[0], cv2.COLOR_RGB2BGR)
    )
    print(f"{target}: a {held_labels[number]}")
