"""What the heads and the suppression of YOLOv5 make of the outputs in tests/vision/yolo_outputs.py.

    python tools/vision/yolov5_goldens.py      # needs yolov5, ultralytics, torch, torchvision; writes tests/vision/data/yolov5.npz

The package yolov5 carries the repository of that name. YOLOv7 has its arithmetic, and anchors of its own. Masks are made by
ultralytics, which enlarges them before their sigmoid.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from ultralytics.utils.ops import process_mask
from yolov5.models.yolo import Detect, Segment
from yolov5.utils.general import non_max_suppression

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "plugins")]

from rknnlite_vision.heads.yolo_anchors import ANCHORS  # noqa: E402

from tests.vision import yolo_outputs as made  # noqa: E402

SCORE, OVERLAP, MOST, MASKS = 0.25, 0.45, 300, 10
TARGET = ROOT / "tests" / "vision" / "data" / "yolov5.npz"


class Given(nn.Module):
    """A layer that gives what it was told."""

    def __init__(self, numbers: torch.Tensor) -> None:
        super().__init__()
        self.numbers = numbers

    def forward(self, *_: Any) -> torch.Tensor:
        return self.numbers


def table(family: str, masks: bool) -> torch.Tensor:
    """[1, boxes, numbers] of the head, whose convolutions give the outputs' numbers."""
    anchors = [[size for anchor in stride for size in anchor] for stride in ANCHORS[family]]
    head = (Segment if masks else Detect)(made.CLASSES, anchors, ch=(16, 16, 16)).eval()
    head.stride = torch.tensor(made.STRIDES, dtype=torch.float32)
    head.anchors /= head.stride.view(-1, 1, 1)
    maps = [torch.from_numpy(m).view(3, -1, *m.shape[2:]) for m in made.anchored(activated=False)]
    if masks:
        weights = [torch.from_numpy(m).view(3, -1, *m.shape[2:]) for m in made.anchored_weights()]
        maps = [torch.cat(both, 1) for both in zip(maps, weights)]
    head.m = nn.ModuleList(Given(m.reshape(1, -1, *m.shape[2:])) for m in maps)
    if masks:
        head.proto = Given(torch.from_numpy(made.prototypes()))
    found: torch.Tensor = head([None, None, None])[0]
    return found


def suppressed(boxes: torch.Tensor, masks: int = 0) -> np.ndarray:
    """Rows of YOLOv5's suppression."""
    found: np.ndarray = non_max_suppression(boxes.clone(), SCORE, OVERLAP, max_det=MOST, nm=masks)[0].numpy()
    return found


def main() -> None:
    found = {family: suppressed(table(family, masks=False)) for family in ANCHORS}
    found["objectness 3"] = suppressed(torch.from_numpy(made.with_objectness(51, 3)))
    exported = torch.from_numpy(made.with_objectness(51, 3, made.table_weights()))
    for name, boxes in (("yolov5", table("yolov5", masks=True)), ("objectness", exported)):
        rows = suppressed(boxes, made.PROTOTYPES)
        first = torch.from_numpy(rows[:MASKS])
        drawn = process_mask(
            torch.from_numpy(made.prototypes()[0]), first[:, 6:], first[:, :4], made.SIZE[::-1], upsample=True
        )
        found[f"{name} masked"], found[f"{name} masks"] = rows[:, :6], np.packbits(drawn.numpy())
    np.savez_compressed(TARGET, **found)
    for name, array in found.items():
        print(f"{name:17} {list(array.shape)}")


if __name__ == "__main__":
    with torch.inference_mode():
        main()
