#!/usr/bin/env python3
"""Average precision of the network on scenes that it was not trained on: float32 ONNX, and int8 .rknn files.

    python measure.py detect.onnx detect_for_RK3588.rknn     # of 200 scenes
    python measure.py --calibration SCENES                   # 60 other scenes for convert.py
    python measure.py --dataset SCENES                       # the 200 scenes for rknnlite eval

Needs scikit-image, opencv-python-headless, and onnxruntime for ONNX files. A box is right whose class is right and
whose overlap with a box that is there is at least 0.5.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
from decode import LABELS, SIZE, postprocess
from scenes import letterboxed

HELD_OUT, CALIBRATION = 10_000_000, 20_000_000
COUNT = 200
Network = Callable[[np.ndarray], "list[np.ndarray]"]


def network(path: str) -> Network:
    """Outputs of a picture, uint8 [SIZE, SIZE, 3]."""
    if path.endswith(".onnx"):
        import onnxruntime

        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        return lambda p: session.run(None, {"image": p.transpose(2, 0, 1)[None].astype(np.float32) / 255})
    import rknnlite

    context = rknnlite.open(path)
    return lambda p: context.infer(p[None])


def overlaps(box: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Intersection over union with each of the others [n, 4]."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    shared = sides.clip(min=0).prod(axis=1)
    return shared / ((box[2:] - box[:2]).prod() + (others[:, 2:] - others[:, :2]).prod(axis=1) - shared)


def average_precision(guesses: list[tuple[float, bool]], there: int) -> float:
    """Area under precision over recall, precision made monotonous."""
    right = np.cumsum([hit for _, hit in sorted(guesses, key=lambda g: -g[0])])
    precision = np.maximum.accumulate((right / np.arange(1, len(right) + 1))[::-1])[::-1]
    recall = right / there
    return float((np.diff(recall, prepend=0) * precision).sum())


def measure(run: Network) -> list[float]:
    """Average precision per class."""
    guesses: list[list[tuple[float, bool]]] = [[] for _ in LABELS]
    there = [0] * len(LABELS)
    for n in range(COUNT):
        picture, truth = letterboxed(np.random.default_rng(HELD_OUT + n), SIZE)
        open_boxes = np.ones(len(truth), bool)
        for kind in truth[:, 0]:
            there[int(kind)] += 1
        for score, kind, *box in postprocess(run(picture), least=0.01):
            match = np.where(open_boxes & (truth[:, 0] == kind), overlaps(np.array(box), truth[:, 1:]), 0)
            hit = bool(len(match) and match.max() >= 0.5)
            if hit:
                open_boxes[match.argmax()] = False
            guesses[int(kind)].append((float(score), hit))
    return [average_precision(g, t) for g, t in zip(guesses, there)]


def dataset(folder: Path) -> None:
    """The scenes as pictures, and what is in them in COCO's form."""
    images, annotations = [], []
    for n in range(COUNT):
        picture, truth = letterboxed(np.random.default_rng(HELD_OUT + n), SIZE)
        cv2.imwrite(str(folder / f"{n:03}.png"), picture[..., ::-1])
        images.append({"id": n + 1, "file_name": f"{n:03}.png", "width": SIZE, "height": SIZE})
        for kind, x1, y1, x2, y2 in truth.tolist():
            box = [x1, y1, x2 - x1, y2 - y1]
            row = {"id": len(annotations) + 1, "image_id": n + 1, "category_id": int(kind) + 1, "bbox": box}
            annotations.append({**row, "area": box[2] * box[3], "iscrowd": 0})
    categories = [{"id": n + 1, "name": label} for n, label in enumerate(LABELS)]
    parts = {"images": images, "annotations": annotations, "categories": categories}
    (folder / "instances.json").write_text(json.dumps(parts), encoding="utf-8")


def main() -> None:
    if sys.argv[1] in ("--calibration", "--dataset"):
        folder = Path(sys.argv[2])
        folder.mkdir(exist_ok=True)
        if sys.argv[1] == "--dataset":
            dataset(folder)
            return
        for n in range(60):
            picture, _ = letterboxed(np.random.default_rng(CALIBRATION + n), SIZE)
            np.save(folder / f"{n}.npy", picture.transpose(2, 0, 1)[None])
        return
    for path in sys.argv[1:]:
        found = measure(network(path))
        print(
            f"{path}: mAP50 {np.mean(found):.4f};",
            ", ".join(f"{n} {p:.3f}" for n, p in zip(LABELS, found)),
            flush=True,
        )


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads our output may have enough of it
    main()
