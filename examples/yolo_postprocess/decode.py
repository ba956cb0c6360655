"""Boxes from the detector's heads, as ``rknnlite_vision`` decodes YOLOv5's, and that as a custom operator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rknnlite_vision import Limits, recognise

from rknnlite import DType, Layout, TensorAttr

MODEL = Path(__file__).resolve().parent / "shapes_heads_for_RK3588.rknn"
SIZE = 128
LABELS = ("circle", "square", "triangle", "star")
STRIDES = (8, 16)
ANCHORS = (((14, 14), (20, 20), (27, 27)), ((33, 33), (39, 39), (46, 46)))
"""Width and height in pixels, three per head."""
MOST = 64
"""Rows of the answer."""
LIMITS = Limits(score=0.35, overlap=0.45, most=MOST, across=True)

PICTURE = TensorAttr(0, "image", (1, SIZE, SIZE, 3), DType.UINT8, Layout.NHWC)
HEADS = [
    TensorAttr(n, f"head{stride}", (1, 27, SIZE // stride, SIZE // stride), DType.FLOAT32, Layout.NCHW)
    for n, stride in enumerate(STRIDES)
]
DECODER = recognise([PICTURE], HEADS, "logits", ANCHORS)


class cstYoloDetect:
    """An operator of the model: boxes [1, MOST, 4], scores, classes [1, MOST]; rows past the last are zero.

    Three outputs, because a quantised model quantises them: pixels, scores and class numbers each get steps of
    their own size.
    """

    op_type = "cstYoloDetect"

    def shape_infer(self, node, in_shapes, in_dtypes):
        return [[1, MOST, 4], [1, MOST], [1, MOST]], [in_dtypes[0]] * 3

    def compute(self, node, inputs):
        (found,) = DECODER.decode(inputs, LIMITS)
        outputs = [np.zeros(shape, np.float32) for shape in self.shape_infer(node, (), [None])[0]]
        for output, rows in zip(outputs, (found.boxes, found.scores, found.classes)):
            output[0, : len(found)] = rows
        return outputs
