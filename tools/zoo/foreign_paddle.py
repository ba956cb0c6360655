"""Paddle networks through paddle2onnx, in an environment of its own: ``python foreign_paddle.py NAME FILE.onnx``.

Random weights, batch norms calibrated on noise.
"""

from __future__ import annotations

import sys
import tempfile
import zlib
from pathlib import Path

import paddle
import paddle2onnx
from paddle.vision import models

_OPSET = 14
_NETWORKS = {
    "paddle_mobilenet_v3": (lambda: models.mobilenet_v3_small(scale=0.5, num_classes=20), (1, 3, 96, 96)),
    "paddle_shufflenet_v2": (lambda: models.shufflenet_v2_x0_25(num_classes=20), (1, 3, 96, 96)),
    "paddle_resnet": (lambda: models.resnet18(num_classes=20), (1, 3, 64, 64)),
}


def main(name: str, path: str) -> None:
    """Build, calibrate, export."""
    paddle.seed(zlib.crc32(name.encode()))
    build, shape = _NETWORKS[name]
    model = build()
    for layer in model.sublayers():
        if hasattr(layer, "_momentum"):
            layer._momentum = 0.5
    model.train()
    with paddle.no_grad():
        for _ in range(12):
            model(paddle.uniform((8, *shape[1:]), min=-1.0, max=1.0))
    model.eval()
    with tempfile.TemporaryDirectory() as folder:
        stem = str(Path(folder) / "model")
        paddle.jit.save(model, stem, [paddle.static.InputSpec(shape, "float32", "in0")])
        program = next(p for p in (Path(f"{stem}.json"), Path(f"{stem}.pdmodel")) if p.exists())
        paddle2onnx.export(str(program), f"{stem}.pdiparams", path, opset_version=_OPSET)


if __name__ == "__main__":
    main(*sys.argv[1:])
