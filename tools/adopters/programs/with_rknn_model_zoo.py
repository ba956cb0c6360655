"""rknn_model_zoo's Python demos from a checkout: functions of some on a detector of this repository, and as its users
start it each demo that has a model.

A demo with a model is one with a file examples/NAME/model/*.rknn, where its convert.py puts it. Those that take several
models (CLIP, Whisper, MobileSAM, PPOCR-System) are left to hand.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import cv2
import numpy as np
from direct import DETECTOR, SCENE, demand, demand_equal, inference, seen

DEMOS = ("yolov8", "yolo11", "yolov10")  # the heads of this repository's detector
LABELS = ("astronaut", "cat", "coin", "cup", "photographer", "rocket", "shuttle")
ZOO = Path(sys.argv[1]).resolve()
demand(
    ZOO.name == "rknn_model_zoo",
    f"its demos look for a folder rknn_model_zoo above them; this one is {ZOO.name}",
)

scene = cv2.imread(str(SCENE))
found = []
for name in DEMOS:
    folder = ZOO / "examples" / name / "python"
    if not folder.exists():
        continue
    sys.path.insert(0, str(folder))
    demo = importlib.import_module(name)
    demo.IMG_SIZE, demo.CLASSES = (320, 320), LABELS  # as its users change them for networks of their own
    model, platform = demo.setup_model(Namespace(model_path=str(DETECTOR), target="rk3588", device_id=None))
    helper = demo.COCO_test_helper(enable_letter_box=True)
    picture = cv2.cvtColor(helper.letter_box(im=scene.copy(), new_shape=(320, 320)), cv2.COLOR_BGR2RGB)
    outputs = model.run([picture])
    for got, expected in zip(outputs, inference(DETECTOR, picture[None])):
        demand_equal(got, expected, f"outputs of {name}")
    boxes, classes, scores = getattr(demo, f"post_process_{name}", demo.post_process)(outputs)
    demand(boxes is not None and len(boxes), f"{name} found nothing")
    model.release()
    found.append(f"{name}: {len(boxes)} boxes of {len(np.unique(classes))} classes, best {scores.max():.2f}")
demand(found, f"examples/ has none of {', '.join(DEMOS)}")

started: list[str] = []
failed: list[str] = []
for folder in sorted(path.parent for path in ZOO.glob("examples/**/python")):
    models = sorted((folder / "model").glob("*.rknn"))
    for script in sorted((folder / "python").glob("*.py")) if models else []:
        if "--model_path" not in script.read_text("utf-8", "replace"):
            continue
        words = [sys.executable, str(script), "--model_path", str(models[0]), "--target", "rk3588"]
        done = subprocess.run(words, cwd=script.parent, capture_output=True, text=True, check=False)
        (failed if done.returncode else started).append(script.stem)
        if done.returncode:
            print(done.stdout[-500:], done.stderr[-1500:], sep="\n")
demand(not failed, f"these demos fail: {', '.join(failed)}")
many = [f"started with models of their own: {', '.join(started)}"] * bool(started)
seen("; ".join([*found, "outputs as of a plain program", *many]))
