#!/usr/bin/env python3
"""Name a handwritten digit with a model of the first toolkit, as programs for rknn-toolkit-lite 1.x do it."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import numpy as np

from rknnlite.api import RKNNLite

try:
    import cv2
except ImportError as error:
    sys.exit(f"{error}: pip install opencv-python-headless (Debian: apt install python3-opencv)")

HERE = Path(__file__).resolve().parent
NAMES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def show_top5(logits: np.ndarray) -> None:
    """Print the five most likely digits with their softmax scores."""
    scores = np.exp(logits - logits.max())
    scores /= scores.sum()
    print("digits\n-----TOP 5-----")
    for index in (-scores).argsort(kind="stable")[:5]:
        print(f'[{index}] score:{scores[index]:.6f} class:"{NAMES[index]}"')


def main() -> None:
    picture = sys.argv[1] if len(sys.argv) > 1 else str(HERE / "digit.png")
    bgr = cv2.imread(picture)
    if bgr is None:
        sys.exit(f"Cannot read {picture}")
    img = cv2.cvtColor(cv2.resize(bgr, (32, 32)), cv2.COLOR_BGR2RGB)  # no batch dimension, as it was usual

    rknn = RKNNLite()
    try:
        if rknn.load_rknn(str(HERE / "digits.rknn")) != 0:
            sys.exit("Load RKNN model failed")
        if rknn.init_runtime(target="rv1126") != 0:  # on the board: init_runtime()
            sys.exit("Init runtime environment failed")
        outputs = rknn.inference(inputs=[img])
        if outputs is None:
            sys.exit("Running model failed")
        show_top5(outputs[0].reshape(-1))
    finally:
        rknn.release()


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads our output may have enough of it
    main()
