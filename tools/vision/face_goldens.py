#!/usr/bin/env python3
"""Faces that uniface's RetinaFace and SCRFD code finds in made-up outputs, and lines that rapidocr reads: tests/vision/data.

    python tools/vision/face_goldens.py tests/vision/data     # needs uniface, rapidocr, onnxruntime, opencv

The outputs of the face networks are made from a seed, so that the files have only what was found. Of the text network's output
the classes are kept that have a share anywhere; their characters beside them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

SIZE = (96, 64)
STRIDES = (8, 16, 32)
LINES = ("Hello 42 NPU", "balloon 7711", "tomato")
SCORE = 0.5


def tables(family: str) -> dict[str, Any]:
    """Outputs by name, in the order of the published exports."""
    random = np.random.default_rng(len(family))
    cells = [(SIZE[0] // s) * (SIZE[1] // s) for s in STRIDES]
    if family == "retinaface":
        places = 2 * sum(cells)
        face = random.uniform(0, 1, (1, places, 1))
        made = {
            "loc": random.normal(size=(1, places, 4)),
            "conf": np.concatenate([1 - face, face], axis=2),
            "landms": random.normal(size=(1, places, 10)),
        }
    else:
        kinds = (
            {"score": 1, "bbox": 4, "kps": 10}
            if family == "scrfd"
            else {"cls": 1, "obj": 1, "bbox": 4, "kps": 10}
        )
        anchors = 2 if family == "scrfd" else 1
        made = {
            f"{kind}_{stride}": random.uniform(0, 1, (1, anchors * count, n)) * (1 if n == 1 else 3)
            for kind, n in kinds.items()
            for stride, count in zip(STRIDES, cells)
        }
    return {name: array.astype(np.float32) for name, array in made.items()}


def retinaface() -> tuple[Any, Any, Any]:
    from uniface import common

    outputs = {name: array[0] for name, array in tables("retinaface").items()}
    width, height = SIZE
    priors = common.generate_anchors((height, width))
    boxes = common.decode_boxes(outputs["loc"], priors) * np.tile(SIZE, 2)
    points = common.decode_landmarks(outputs["landms"], priors) * np.tile(SIZE, 5)
    return outputs["conf"][:, 1], boxes, points


def scrfd() -> tuple[Any, Any, Any]:
    from uniface.detection.scrfd import SCRFD

    model = SCRFD.__new__(SCRFD)  # its weights are not needed
    model._num_feature_maps, model._feat_stride_fpn, model._num_anchors = 3, list(STRIDES), 2
    model._center_cache, model.confidence_threshold = {}, SCORE
    found = model.postprocess([array[0] for array in tables("scrfd").values()], SIZE[::-1])
    scores, boxes, points = (np.concatenate(part) for part in found)
    return scores[:, 0], boxes, points.reshape(len(points), -1)


def texts() -> dict[str, Any]:
    """Of each line the output, its characters and what was read."""
    import cv2
    import onnxruntime
    import rapidocr
    from rapidocr.ch_ppocr_rec.utils import CTCLabelDecode

    path = next((Path(rapidocr.__file__).parent / "models").glob("*rec*.onnx"))
    network = onnxruntime.InferenceSession(str(path))
    characters = network.get_modelmeta().custom_metadata_map["character"].splitlines()
    made: dict[str, Any] = {}
    for line in LINES:
        picture = np.full((48, 320, 3), 255, np.uint8)
        cv2.putText(picture, line, (8, 34), cv2.FONT_HERSHEY_SIMPLEX, 1.1, (0, 0, 0), 2, cv2.LINE_AA)
        values = (picture.transpose(2, 0, 1)[None].astype(np.float32) / 255 - 0.5) / 0.5
        scores = network.run(None, {network.get_inputs()[0].name: values})[0]
        kept = np.flatnonzero(scores.max(axis=(0, 1)) > 1e-3)
        kept = np.unique([0, *kept, scores.shape[2] - 1])
        few = [characters[n - 1] for n in kept[1:-1]]
        ((read, score),) = CTCLabelDecode(character=list(few))(scores[..., kept])[0]
        made |= {
            f"{line}.scores": scores[0][:, kept],
            f"{line}.few": np.array(few),
            f"{line}.read": read,
            f"{line}.score": score,
        }
        print(line, "->", read, score)
    return made


def main() -> None:
    folder = Path(sys.argv[1])
    found = {}
    for name, find in (("retinaface", retinaface), ("scrfd", scrfd)):
        scores, boxes, points = find()
        best = scores >= SCORE
        found |= {
            f"{name}.{part}": array[best].astype(np.float32)
            for part, array in (("scores", scores), ("boxes", boxes), ("points", points))
        }
    np.savez_compressed(folder / "faces.npz", **found)
    np.savez_compressed(folder / "text.npz", **texts())


if __name__ == "__main__":
    main()
