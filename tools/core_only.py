#!/usr/bin/env python3
"""What works in an environment without any extra: importing, and running a model on the CPU reference with numpy."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import rknnlite
import rknnlite.api

MODEL = Path(__file__).resolve().parents[1] / "examples" / "resnet18" / "resnet18_for_RK3588.rknn"
EXTRAS = {
    "cv2",
    "PIL",
    "tokenizers",
    "jinja2",
    "shtab",
    "pyopencl",
    "onnx",
    "onnxruntime",
    "openvino",
    "matplotlib",
    "rich",
}


def main() -> None:
    """Fails when an extra has come in, or is needed."""
    assert "site-packages" in str(rknnlite.__file__), f"not the installed package: {rknnlite.__file__}"
    assert not EXTRAS & set(sys.modules), EXTRAS & set(sys.modules)
    with rknnlite.open(MODEL, backend="cpu") as context:
        image = np.zeros(context.inputs[0].dims, np.uint8)
        (scores,) = context.infer(image)
    assert scores.shape == (1, 10), scores.shape
    assert not EXTRAS & set(sys.modules), EXTRAS & set(sys.modules)
    print("core only:", ", ".join(f"{n:.2f}" for n in scores[0]))


if __name__ == "__main__":
    main()
