"""Outputs of YOLOX, PP-YOLOE, NanoDet and PicoDet for 160 x 128 pixels, made from a seed: for decoders here and those of others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from rknnlite_vision.heads.stored import sigmoid

from .yolo_outputs import CLASSES, SIZE, normal

__all__ = ["CLASSES", "flat", "gfl", "grids", "ppyoloe", "yolox"]

Array = NDArray[Any]


def grids(strides: tuple[int, ...] = (8, 16, 32)) -> list[tuple[int, int]]:
    """Rows and columns of each stride; convolutions round up."""
    return [(-(-SIZE[1] // s), -(-SIZE[0] // s)) for s in strides]


def yolox(seed: int = 71, activated: bool = True) -> list[Array]:
    """[1, 5 + classes, h, w] of each stride."""
    maps = []
    for number, (h, w) in enumerate(grids()):
        boxes = normal(seed + number, 1, 4, h, w, scale=0.8, middle=0.4)
        scores = normal(seed + 10 + number, 1, 1 + CLASSES, h, w, scale=2.0, middle=-1.0)
        maps.append(np.concatenate([boxes, sigmoid(scores) if activated else scores], axis=1))
    return maps


def gfl(
    seed: int = 81, strides: tuple[int, ...] = (8, 16, 32), bins: int = 8, activated: bool = True
) -> tuple[list[Array], list[Array]]:
    """Scores [1, classes, h, w] and distributions of sides [1, 4 * bins, h, w] of each stride."""
    scores, sides = [], []
    for number, (h, w) in enumerate(grids(strides)):
        logits = normal(seed + number, 1, CLASSES, h, w, scale=2.0, middle=-4.5)
        scores.append(sigmoid(logits) if activated else logits)
        sides.append(normal(seed + 10 + number, 1, 4 * bins, h, w, scale=1.5))
    return scores, sides


def ppyoloe(seed: int = 91, sums: bool = True) -> list[Array]:
    """Sides, scores, and their sum, of each stride, as Rockchip's model zoo cuts the network."""
    outputs = []
    for scores, sides in zip(*gfl(seed, bins=17)):
        outputs += [sides, scores, scores.sum(axis=1, keepdims=True).clip(0, 1)][: 3 if sums else 2]
    return outputs


def flat(maps: list[Array]) -> list[Array]:
    """Maps as tables [1, cells, numbers]."""
    return [np.ascontiguousarray(m.reshape(1, m.shape[1], -1).transpose(0, 2, 1)) for m in maps]
