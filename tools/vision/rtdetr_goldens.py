"""What ultralytics and transformers make of RT-DETR's boxes and scores in tests/vision/rtdetr_outputs.py.

    python tools/vision/rtdetr_goldens.py      # needs torch, and ultralytics or transformers; adds to tests/vision/data/rtdetr.npz

ultralytics decodes a table up to 8.4.46, rows from 8.4.47 on: run it with one of each. What is not installed stays as it was.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "plugins")]

from tests.vision import rtdetr_outputs as made  # noqa: E402

TARGET = ROOT / "tests" / "vision" / "data" / "rtdetr.npz"


def predicted(network: torch.Tensor) -> np.ndarray:
    """Corners, score, class by the predictor of ultralytics, for a picture that has the network's size."""
    from ultralytics.models.rtdetr.predict import RTDETRPredictor

    names = {n: str(n) for n in range(made.CLASSES)}
    told = SimpleNamespace(conf=made.SCORE, classes=None, max_det=300)
    predictor = SimpleNamespace(args=told, batch=[["picture"]], model=SimpleNamespace(names=names))
    width, height = made.SIZE
    picture = np.zeros((height, width, 3), np.uint8)
    called: Any = RTDETRPredictor.postprocess
    (found,) = called(predictor, network, torch.zeros(1, 3, height, width), [picture])
    return found.boxes.data.numpy()


def of_ultralytics(boxes: torch.Tensor, logits: torch.Tensor) -> dict[str, np.ndarray]:
    """The output that its decoder gives when it is exported, and what its predictor makes of that."""
    from ultralytics.nn.modules.head import RTDETRDecoder

    scores = logits.sigmoid()
    if not hasattr(RTDETRDecoder, "postprocess"):
        return {"table": predicted(torch.cat([boxes, scores], -1))}
    decoder = SimpleNamespace(
        export=True, num_queries=300, max_det=300, dynamic=False, nc=made.CLASSES, format="onnx"
    )
    called: Any = RTDETRDecoder.postprocess
    rows = called(decoder, boxes, scores)
    return {"rows output": rows.numpy(), "rows": predicted(rows)}


def of_transformers(boxes: torch.Tensor, logits: torch.Tensor) -> dict[str, np.ndarray]:
    """Boxes and logits in two outputs."""
    from transformers import RTDetrImageProcessor

    outputs: Any = SimpleNamespace(logits=logits, pred_boxes=boxes)
    (found,) = RTDetrImageProcessor().post_process_object_detection(outputs, made.SCORE, [made.SIZE[::-1]])
    columns = found["boxes"], found["scores"][:, None], found["labels"][:, None].float()
    return {"two outputs": torch.cat(columns, 1).numpy()}


def main() -> None:
    found = dict(np.load(TARGET)) if TARGET.exists() else {}
    boxes, logits = torch.from_numpy(made.BOXES), torch.from_numpy(made.LOGITS)
    ways: tuple[Callable[..., dict[str, np.ndarray]], ...] = (of_ultralytics, of_transformers)
    for way in ways:
        try:
            found |= way(boxes, logits)
        except ModuleNotFoundError as error:
            print(f"left as it was: {error}")
    np.savez_compressed(TARGET, **found)
    for name, rows in found.items():
        print(f"{name:12} {list(rows.shape)}")


if __name__ == "__main__":
    with torch.inference_mode():
        main()
