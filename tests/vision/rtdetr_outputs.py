"""Boxes and scores before the sigmoid as RT-DETR's decoder gives them for 160 x 128 pixels, made from a seed."""

from __future__ import annotations

import numpy as np

from .yolo_outputs import CLASSES, SIZE, normal

__all__ = ["BOXES", "CLASSES", "LOGITS", "SCORE", "SIZE"]

SCORE = 0.25
BOXES = np.random.default_rng(1).random((1, 300, 4)).astype(np.float32)
LOGITS = normal(2, 1, 300, CLASSES, scale=2, middle=-3)
