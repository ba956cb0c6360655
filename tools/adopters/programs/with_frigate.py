"""Frigate's rknn detector from a checkout: its own configuration, with each number of cores; a runner for embeddings."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
from direct import DATA, demand, demand_equal, inference, seen

sys.path.insert(0, sys.argv[1])
from frigate.detectors.detection_runners import RKNNModelRunner
from frigate.detectors.detector_config import ModelConfig, ModelTypeEnum
from frigate.detectors.plugins.rknn import Rknn, RknnDetectorConfig

BOXES = DATA / "yolov8_dfl.rk3588.fp16.rknn"
SIZE, CORES = 24, range(4)

labels = Path("labels.txt")
labels.write_text("0 a\n1 b\n2 c\n")
model = ModelConfig(
    path=str(BOXES), labelmap_path=str(labels), width=SIZE, height=SIZE, model_type=ModelTypeEnum.yologeneric
)
picture = np.random.default_rng(1).integers(0, 256, (1, SIZE, SIZE, 3), np.uint8)
(expected,) = inference(BOXES, picture)
for count in CORES:
    detector = Rknn(RknnDetectorConfig(type="rknn", model=model, num_cores=count))
    (raw,) = detector.runner.run({"input": picture})
    demand_equal(raw, expected, f"raw output with num_cores {count}")
    demand(np.shape(detector.detect_raw(picture)) == (20, 6), "detect_raw")

# The runner tells a model for pictures by its name, and turns it to NHWC.
vision = Path("vision_model.rknn")
shutil.copy(BOXES, vision)
runner = RKNNModelRunner(str(vision))
demand_equal(runner.run({"pixel_values": picture.transpose(0, 3, 1, 2)})[0], expected, "pixel_values")
seen(
    f"get_soc says {detector.get_soc()}; num_cores 0 to {CORES[-1]} and NCHW pixel_values: the numbers of a plain program"
)
