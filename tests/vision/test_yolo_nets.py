"""Trained detectors of the examples: what their own decoders find, these find, too."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_vision.heads.head import Limits
from rknnlite_vision.heads.recognise import recognise
from rknnlite_vision.results import Detections

import rknnlite

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def own_decoder(example: str) -> Any:
    """The example's module ``decode``."""
    spec = importlib.util.spec_from_file_location(f"decode_of_{example}", EXAMPLES / example / "decode.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def same(found: Any, own: np.ndarray[Any, Any]) -> None:
    """``own`` has rows of score, class, corners."""
    assert isinstance(found, Detections) and len(found) == len(own) > 3
    np.testing.assert_array_equal(found.classes, own[:, 1])
    np.testing.assert_allclose(found.scores, own[:, 0], atol=1e-6)
    np.testing.assert_allclose(found.boxes, own[:, 2:], atol=0.01)


def test_the_detector_of_the_scene() -> None:
    cv2 = pytest.importorskip("cv2")
    decode = own_decoder("detect")
    square, _, _ = decode.letterbox(cv2.imread(str(EXAMPLES / "detect" / "scene.jpg")))
    with rknnlite.open(EXAMPLES / "detect" / "detect_for_RK3588.rknn") as context:
        head = recognise(context.inputs, context.outputs)
        stored = [output.data for output in context.infer(square, raw=True)]
        own = decode.postprocess(context.infer(square))
    same(head.decode(stored, Limits(decode.SCORE, decode.OVERLAP))[0], own)


def test_the_detector_of_shapes_with_anchors_of_its_own() -> None:
    cv2 = pytest.importorskip("cv2")
    decode = own_decoder("yolo_postprocess")
    picture = cv2.cvtColor(cv2.imread(str(EXAMPLES / "yolo_postprocess" / "shapes.png")), cv2.COLOR_BGR2RGB)
    with rknnlite.open(EXAMPLES / "yolo_postprocess" / "shapes_heads_for_RK3588.rknn") as context:
        head = recognise(context.inputs, context.outputs, anchors=decode.ANCHORS)
        stored = [output.data for output in context.infer(picture, raw=True)]
        own = decode.postprocess(context.infer(picture))
    assert head.family == "YOLOv5 form (5, 7), given anchors, 2 outputs, 4 classes, sigmoid to come"
    same(head.decode(stored, Limits(decode.SCORE, decode.OVERLAP, decode.MOST, across=True))[0], own)
