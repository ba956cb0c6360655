"""What the heads of other projects make of the outputs in tests/vision/detector_outputs.py, before suppression.

    python tools/vision/detector_goldens.py        # needs torch, pixeltable-yolox and libreyolo; writes tests/vision/data/detectors.npz

YOLOX is Megvii's own head, as pixeltable-yolox carries it; PP-YOLOE and PicoDet are LibreYOLO's. The convolutions of each head
are replaced by what they would give. Rows are the boxes of all cells whose best score passes: corners, score, class; best first.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from libreyolo.models.picodet.nn import PicoHead
from libreyolo.models.ppyoloe.nn import PPYOLOEHead
from torch import nn
from yolox.models.yolo_head import YoloxHead

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "plugins")]

from tests.vision import detector_outputs as made  # noqa: E402

SCORE = 0.25
TARGET = ROOT / "tests" / "vision" / "data" / "detectors.npz"


class Given(nn.Module):
    """A layer that gives what it was told."""

    def __init__(self, numbers: np.ndarray) -> None:
        super().__init__()
        self.numbers = torch.from_numpy(numbers)

    def forward(self, *_: Any) -> torch.Tensor:
        return self.numbers


def givens(maps: list[np.ndarray]) -> nn.ModuleList:
    """One for each stride."""
    return nn.ModuleList(Given(m) for m in maps)


def nothing(count: int = 3) -> nn.ModuleList:
    """Layers that do nothing."""
    return nn.ModuleList(nn.Identity() for _ in range(count))


def feats(strides: tuple[int, ...] = (8, 16, 32)) -> list[torch.Tensor]:
    """What a backbone would give: only the sizes are looked at."""
    return [torch.zeros(1, 1, h, w) for h, w in made.grids(strides)]


def yolox() -> np.ndarray:
    """Boxes and scores [cells, ...] of Megvii's head."""
    maps = made.yolox(activated=False)
    head = YoloxHead(made.CLASSES, width=0.1).eval()
    head.stems, head.cls_convs, head.reg_convs = nothing(), nothing(), nothing()
    head.reg_preds = givens([np.ascontiguousarray(m[:, :4]) for m in maps])
    head.obj_preds = givens([np.ascontiguousarray(m[:, 4:5]) for m in maps])
    head.cls_preds = givens([np.ascontiguousarray(m[:, 5:]) for m in maps])
    table = head(feats())[0]
    middle, half = table[:, :2], table[:, 2:4] / 2
    return rows(torch.cat([middle - half, middle + half], 1), table[:, 4:5] * table[:, 5:])


def ppyoloe() -> np.ndarray:
    """Of LibreYOLO's PP-YOLOE, whose strides are in falling order."""
    scores, sides = made.gfl(91, bins=17, activated=False)
    head = PPYOLOEHead(made.CLASSES, (16, 16, 16)).eval()
    head.stem_cls = head.stem_reg = givens(
        [np.zeros((1, 1, h, w), np.float32) for h, w in made.grids()[::-1]]
    )
    head.pred_cls, head.pred_reg = givens(scores[::-1]), givens(sides[::-1])
    head.export = True
    boxes, found = head(feats()[::-1])
    return rows(boxes[0], found[0])


def picodet(strides: tuple[int, ...]) -> np.ndarray:
    """Of LibreYOLO's PicoDet, whose arithmetic is that of NanoDet before Plus."""
    scores, sides = made.gfl(strides=strides, activated=False)
    head = PicoHead(16, made.CLASSES, 16, 0, strides=strides).eval()
    head.gfl_cls = givens([np.concatenate(both, axis=1) for both in zip(scores, sides)])
    head.export = True
    table = head(feats(strides))[0]
    return rows(table[:, :4], table[:, 4:])


def rows(boxes: torch.Tensor, scores: torch.Tensor) -> np.ndarray:
    """Those that pass, best first."""
    best, kinds = scores.max(1)
    found = torch.cat([boxes, best[:, None], kinds[:, None].float()], 1)[best >= SCORE]
    return found[found[:, 4].argsort(descending=True, stable=True)].numpy()


def main() -> None:
    found = {
        "yolox": yolox(),
        "ppyoloe": ppyoloe(),
        "nanodet": picodet((8, 16, 32)),
        "picodet": picodet((8, 16, 32, 64)),
    }
    np.savez_compressed(TARGET, **found)
    for name, golden in found.items():
        print(f"{name:10} {list(golden.shape)}")


if __name__ == "__main__":
    with torch.inference_mode():
        main()
