"""YOLO("x_rknn_model").predict, from a folder with metadata.yaml and the .rknn file as its exporter writes them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
from direct import DATA, DIGIT, DIGITS, demand, demand_equal, inference, seen
from ultralytics import YOLO
from ultralytics.utils.checks import check_requirements

BOXES = DATA / "yolov8_dfl.rk3588.fp16.rknn"
METADATA = "task: {task}\nstride: {stride}\nbatch: 1\nimgsz: [{size}, {size}]\nchannels: 3\nnames: {names}\nargs: {{batch: 1, dynamic: false}}\n"


def exported(name: str, file: Path, task: str, size: int, stride: int, names: list[str]) -> str:
    folder = Path(f"{name}_rknn_model")
    folder.mkdir()
    shutil.copy(file, folder)
    words = dict(enumerate(names))
    (folder / "metadata.yaml").write_text(METADATA.format(task=task, stride=stride, size=size, names=words))
    return str(folder)


demand(check_requirements("rknn-toolkit-lite2", install=False), "it does not find rknn-toolkit-lite2")

labels = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
model = YOLO(exported("digits", DIGITS, "classify", 224, 1, labels), task="classify")
result = model.predict(str(DIGIT), imgsz=224)[0]
picture = cv2.cvtColor(cv2.imread(str(DIGIT)), cv2.COLOR_BGR2RGB)[None]
(logits,) = inference(DIGITS, picture)
demand(result.names[result.probs.top1] == "seven", f"the digit is {result.names[result.probs.top1]}")
demand_equal(result.probs.data.numpy(), logits[0], "probs")

model = YOLO(exported("boxes", BOXES, "detect", 24, 8, ["a", "b", "c"]), task="detect")
model.predict(str(DIGIT), imgsz=24, conf=0.001)  # loads it
rknn = model.predictor.model.backend.model
fed: list[tuple[np.ndarray, np.ndarray]] = []


def remembered(
    inputs: list[np.ndarray], ask: Callable[..., list[np.ndarray]] = rknn.inference
) -> list[np.ndarray]:
    outputs = ask(inputs=inputs)
    fed.append((inputs[0].copy(), outputs[0].copy()))
    return outputs


rknn.inference = remembered
boxes = model.predict(str(DIGIT), imgsz=24, conf=0.001)[0].boxes
demand(fed and len(boxes), "it found no boxes")
for given, raw in fed:
    demand_equal(raw, inference(BOXES, given)[0], "boxes before they are suppressed")
seen(
    f"classify: a seven, ten numbers as of a plain program; detect: {len(boxes)} boxes, raw output as of a plain program"
)
