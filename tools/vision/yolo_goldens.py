"""What ultralytics' and torchvision's own post-processing make of the outputs in tests/vision/yolo_outputs.py.

    python tools/vision/yolo_goldens.py        # needs ultralytics, torch and torchvision; writes tests/vision/data/yolo.npz

The tests compare our decoders with these results; the outputs themselves are made again from their seeds, but the rows that heads
choose: their outputs lie beside the results. YOLOv5 and v7 are in yolov5_goldens.py.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torchvision
from ultralytics.nn.modules.head import OBB, Detect, Pose
from ultralytics.utils.metrics import batch_probiou
from ultralytics.utils.nms import non_max_suppression
from ultralytics.utils.ops import process_mask

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "plugins")]

from tests.vision import yolo_outputs as made  # noqa: E402

SCORE, OVERLAP, MOST = 0.25, 0.45, 300
ROWS = 60
TARGET = ROOT / "tests" / "vision" / "data" / "yolo.npz"


def head(kind: type[Any] = Detect, bins: int = made.BINS, **options: Any) -> Any:
    """A head of ultralytics, for the strides here; its convolutions are not used."""
    found = kind(nc=options.pop("classes", made.CLASSES), reg_max=bins, ch=(16, 16, 16), **options).eval()
    found.stride = torch.tensor(made.STRIDES, dtype=torch.float32)
    return found


def raw(seed: int, bins: int = made.BINS, classes: int = made.CLASSES, **more: Any) -> dict[str, Any]:
    """What a head's convolutions would give."""
    feats = [torch.zeros(1, 1, h, w) for h, w in made.GRIDS]
    boxes, scores = torch.from_numpy(made.bins(seed, bins)), torch.from_numpy(made.logits(seed + 1, classes))
    return {"boxes": boxes, "scores": scores, "feats": feats, **more}


def suppressed(table: Any, classes: int = made.CLASSES, **options: Any) -> np.ndarray:
    """Rows of ultralytics' suppression."""
    return non_max_suppression(table, SCORE, OVERLAP, nc=classes, max_det=MOST, **options)[0].numpy()


def from_maps() -> dict[str, np.ndarray]:
    """Heads that are cut before their boxes are decoded."""
    detect = head()
    table = detect._inference(raw(1))
    found = {"separate": suppressed(table), "plain sides": suppressed(head(bins=1)._inference(raw(11, 1)))}

    one = head(end2end=True)
    one.end2end = True
    decoded = one.postprocess(one._inference(raw(1)).permute(0, 2, 1))
    found["never suppressed"] = non_max_suppression(decoded, SCORE, end2end=True)[0].numpy()

    weights = torch.from_numpy(made.normal(3, 1, made.PROTOTYPES, made.CELLS))
    rows = suppressed(torch.cat([table, weights], 1))
    found["masked"], found["masks"] = rows[:, :6], masks(rows)

    points = torch.from_numpy(made.points()).flatten(1, 2)
    people = head(Pose, classes=1, kpt_shape=(made.POINTS, 3))
    found["pose"] = suppressed(torch.cat([Detect._inference(people, raw(21, classes=1)), points], 1), 1)

    angle = (torch.from_numpy(made.angles()) - 0.25) * torch.pi
    found["rotated"] = suppressed(head(OBB)._inference(raw(1, angle=angle)), rotated=True)
    return found


def masks(rows: np.ndarray) -> np.ndarray:
    """Masks of the first ten ``rows`` with coefficients behind them, 8 pixels in a byte."""
    prototypes = torch.from_numpy(made.prototypes()[0])
    tensor = torch.from_numpy(rows[:10])
    shape = made.SIZE[::-1]
    return np.packbits(process_mask(prototypes, tensor[:, 6:], tensor[:, :4], shape, upsample=True).numpy())


def from_tables() -> dict[str, np.ndarray]:
    """Boxes that the network has decoded."""
    found = {"table": suppressed(torch.from_numpy(made.table(31)))}
    weights = made.normal(3, 1, made.PROTOTYPES, made.CELLS)
    rows = suppressed(torch.from_numpy(made.table(31, more=weights)))
    found["table masked"], found["table masks"] = rows[:, :6], masks(rows)
    points = made.points().reshape(1, -1, made.CELLS)
    found["table pose"] = suppressed(torch.from_numpy(made.table(41, 1, points)), 1)
    angle = (made.angles() - np.float32(0.25)) * np.float32(np.pi)
    found["table rotated"] = suppressed(torch.from_numpy(made.table(31, more=angle)), rotated=True)
    found["rows"] = non_max_suppression(torch.from_numpy(made.rows()), SCORE)[0].numpy()
    return found


def chosen_rows() -> dict[str, np.ndarray]:
    """What heads that need no suppression choose, and what is made of it."""
    table, found = {}, {}
    plain = raw(1)
    weights = torch.from_numpy(made.normal(3, 1, made.PROTOTYPES, made.CELLS))
    table["masked"] = head(end2end=True), plain, weights
    points = torch.from_numpy(made.points()).flatten(1, 2)
    table["pose"] = (
        head(Pose, classes=1, kpt_shape=(made.POINTS, 3), end2end=True),
        raw(21, classes=1),
        points,
    )
    turned = head(OBB, end2end=True)
    table["rotated"] = turned, raw(1, angle=(torch.from_numpy(made.angles()) - 0.25) * torch.pi), None
    for name, (one, given, more) in table.items():
        one.end2end, one.max_det = True, ROWS
        decoded = (OBB if name == "rotated" else Detect)._inference(one, given)
        all_ = decoded if more is None else torch.cat([decoded, more], 1)
        chosen = one.postprocess(all_.permute(0, 2, 1))
        best = non_max_suppression(chosen, SCORE, end2end=True)[0].numpy()
        found[f"rows {name} output"], found[f"rows {name}"] = chosen.numpy(), best
    found["rows masks"] = masks(found["rows masked"])
    found["rows masked"] = found["rows masked"][:, :6]
    return found


def of_yolov6() -> dict[str, np.ndarray]:
    """A table with objectness, one box in each cell, and torchvision's suppression of each class."""
    y = torch.from_numpy(made.with_objectness(51, 1))[0]
    xy, half = y[:, :2], y[:, 2:4] / 2
    return {"objectness 1": of_classes(torch.cat([xy - half, xy + half, y[:, 4:5] * y[:, 5:]], 1))}


def of_classes(rows: Any) -> np.ndarray:
    """Rows of corners and scores of each class, suppressed by torchvision."""
    best, kinds = rows[:, 4:].max(1)
    passing = best >= SCORE
    boxes, best, kinds = rows[passing, :4], best[passing], kinds[passing]
    kept = torchvision.ops.batched_nms(boxes, best, kinds, OVERLAP)[:MOST]
    return torch.cat([boxes[kept], best[kept, None], kinds[kept, None].float()], 1).numpy()


def suppression() -> dict[str, np.ndarray]:
    """Of boxes with equal scores, without area, and many."""
    found = {}
    for count in (40, 900):
        boxes = torch.from_numpy(made.centres(61, count)[0].T.copy())
        boxes[:, 2:] += boxes[:, :2]
        boxes[: count // 10, 2:] = boxes[: count // 10, :2]
        scores = torch.from_numpy(np.random.default_rng(62).integers(1, 20, count) / 20).float()
        found[f"nms {count}"] = torchvision.ops.nms(boxes, scores, 0.3).numpy()
    turned = np.concatenate([made.centres(63, 30)[0].T, made.normal(64, 30, 1)], axis=1)
    found["probiou"] = batch_probiou(torch.from_numpy(turned), torch.from_numpy(turned)).numpy()
    return found


def main() -> None:
    found = {**from_maps(), **from_tables(), **chosen_rows(), **of_yolov6(), **suppression()}
    TARGET.parent.mkdir(exist_ok=True)
    np.savez_compressed(TARGET, **found)
    for name, rows in found.items():
        print(f"{name:18} {list(rows.shape)}")


if __name__ == "__main__":
    with torch.inference_mode():
        main()
