#!/usr/bin/env python3
"""Classify one picture in three sizes with one dynamic-shape model: on the board's NPU, or on a PC."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rknnlite.api import RKNNLite

try:
    import cv2
except ImportError as error:
    sys.exit(f"{error}: pip install opencv-python-headless (Debian: apt install python3-opencv)")

HERE = Path(__file__).resolve().parent
DEVICE_TREE = Path("/proc/device-tree/compatible")
MODELS = {
    "rk3562": "dynamic_for_RK3562.rknn",
    "rk3566": "dynamic_for_RK3566_RK3568.rknn",
    "rk3568": "dynamic_for_RK3566_RK3568.rknn",
    "rk3576": "dynamic_for_RK3576.rknn",
    "rk3588": "dynamic_for_RK3588.rknn",
}
PICTURE = HERE / "digit_256.png"
LABELS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
SIZES = (224, 160, 256)


def soc_name() -> str:
    """The SoC of this board; rk3588 where there is no Rockchip device tree (a PC)."""
    try:
        compatible = DEVICE_TREE.read_text(errors="replace")
    except OSError:
        return "rk3588"
    for name in MODELS:
        if name in compatible:
            return name
    if "rockchip," in compatible:
        sys.exit(f"No model for this SoC: {compatible!r} has none of {', '.join(MODELS)}")
    return "rk3588"


def load_picture(path: Path) -> NDArray[np.uint8]:
    """The picture as height x width x 3, RGB, uint8."""
    bgr = cv2.imread(str(path))
    if bgr is None:
        sys.exit(f"Cannot read {path}")
    return cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB)


def nchw(rgb: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """1 x 3 x size x size: the shape of this array is what selects the shape of the model."""
    return np.expand_dims(np.transpose(cv2.resize(rgb, (size, size)), (2, 0, 1)), 0)


def show_top5(logits: NDArray[np.float32], shape: tuple[int, ...]) -> None:
    """Print the five most likely classes with their softmax scores."""
    scores = np.exp(logits - logits.max())
    scores /= scores.sum()
    print(f"model: dynamic_shape, input shape: {','.join(map(str, shape))}\n-----TOP 5-----")
    for index in (-scores).argsort(kind="stable")[:5]:
        print(f'[{index:2d}] score:{scores[index]:.6f} class:"{LABELS[index]}"')


def main() -> None:
    soc = soc_name()
    model = HERE / MODELS[soc]
    rgb = load_picture(PICTURE)
    rknn_lite = RKNNLite()
    try:
        print("--> Load RKNN model")
        if rknn_lite.load_rknn(str(model)) != 0:
            sys.exit("Load RKNN model failed")
        print("done")

        print("--> Init runtime environment")
        if soc in ("rk3576", "rk3588"):  # several cores: choose one
            ret = rknn_lite.init_runtime(core_mask=RKNNLite.NPU_CORE_0)
        else:
            ret = rknn_lite.init_runtime()
        if ret != 0:
            sys.exit("Init runtime environment failed")
        print("done")

        for size in SIZES:
            img = nchw(rgb, size)
            print("--> Running model")
            outputs = rknn_lite.inference(inputs=[img], data_format=["nchw"])
            if outputs is None:
                sys.exit(f"Running model failed for input shape {img.shape}")
            show_top5(outputs[0].reshape(-1), img.shape)
            print("done")
    finally:
        rknn_lite.release()


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads our output may have enough of it
    main()
