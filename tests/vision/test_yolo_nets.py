"""Trained detectors of the examples: what decoders as programs have them find, the library finds, too."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
from rknnlite_vision.before.preparation import Preparation
from rknnlite_vision.heads.head import Limits
from rknnlite_vision.heads.recognise import recognise
from rknnlite_vision.pictures import read
from rknnlite_vision.results import Detections

import rknnlite
from tests.support.needs import needs

from .field_decoders import of_anchors, of_sides, suppressed

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def same(found: Any, own: np.ndarray[Any, Any]) -> None:
    """``own`` has rows of score, class, corners."""
    assert isinstance(found, Detections) and len(found) == len(own) > 3
    np.testing.assert_array_equal(found.classes, own[:, 1])
    np.testing.assert_allclose(found.scores, own[:, 0], atol=1e-6)
    np.testing.assert_allclose(found.boxes, own[:, 2:], atol=0.01)


def test_the_detector_of_the_scene() -> None:
    needs("PIL")
    limits = Limits(score=0.4, overlap=0.5)
    with rknnlite.open(EXAMPLES / "detect" / "detect_for_RK3588.rknn") as context:
        head = recognise(context.inputs, context.outputs)
        square, _ = Preparation.of(context)(read(EXAMPLES / "detect" / "scene.jpg"))
        stored = [output.data for output in context.infer(square, raw=True)]
        real = context.infer(square)
    boxes = [of_sides(*real[n : n + 2], head.size[0], limits.score) for n in (0, 2, 4)]
    own = suppressed(np.concatenate(boxes), limits.overlap)
    for outputs in (stored, real):
        same(head.decode(outputs, limits)[0], own)


def test_the_detector_of_shapes_with_anchors_of_its_own() -> None:
    needs("PIL")
    example = EXAMPLES / "yolo_postprocess"
    names = runpy.run_path(str(example / "decode.py"))
    limits, anchors = names["LIMITS"], names["ANCHORS"]
    picture = read(example / "shapes.png")
    with rknnlite.open(names["MODEL"]) as context:
        head = recognise(context.inputs, context.outputs, anchors=anchors)
        stored = [output.data for output in context.infer(picture, raw=True)]
        real = context.infer(picture)
    boxes = [of_anchors(*part, limits.score) for part in zip(real, names["STRIDES"], anchors)]
    own = suppressed(np.concatenate(boxes), limits.overlap, across=True)
    assert head.family == "YOLOv5 form (5, 7), given anchors, 2 outputs, 4 classes, sigmoid to come"
    for outputs in (stored, real):
        same(head.decode(outputs, limits)[0], own)
    rows = np.column_stack([out[0] for out in reversed(names["cstYoloDetect"]().compute(None, real))])
    np.testing.assert_allclose(rows[: len(own), [1, 0, 2, 3, 4, 5]], own, atol=0.01)
    assert not rows[len(own) :].any()
