#!/usr/bin/env python3
"""Make the ONNX model of this example and convert it for every chip family.

    python convert.py            # on an x86-64 PC with rknn-toolkit2 and onnx; not needed to run test.py

Two small convolutions, the custom operator, one more convolution behind its first output.
"""

from __future__ import annotations

import signal
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from dual_residual import cstDualResidual
from onnx import TensorProto, helper, numpy_helper
from rknn.api import RKNN

HERE = Path(__file__).resolve().parent
TARGETS = {"rk3588": "RK3588", "rk3566": "RK3566_RK3568", "rk3562": "RK3562", "rk3576": "RK3576"}
SHAPE = [1, 3, 32, 32]


def make_onnx(path: Path) -> None:
    """Random weights from a fixed seed: only the arithmetic matters here."""
    rng = np.random.default_rng(7)
    weights = []

    def conv(source: str, target: str, channels_in: int, channels_out: int) -> onnx.NodeProto:
        w = rng.normal(0, 1 / np.sqrt(9 * channels_in), (channels_out, channels_in, 3, 3)).astype(np.float32)
        weights.append(numpy_helper.from_array(w, target + "_w"))
        return helper.make_node("Conv", [source, target + "_w"], [target], name=target, pads=[1, 1, 1, 1])

    nodes = [
        conv("left", "l", 3, 8),
        conv("right", "r", 3, 8),
        helper.make_node("cstDualResidual", ["l", "r"], ["lr", "difference"], name="dual", alpha=0.5),
        conv("lr", "features", 8, 4),
    ]
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, SHAPE) for n in ("left", "right")]
    outs = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, c, 32, 32])
        for n, c in (("features", 4), ("difference", 8))
    ]
    graph = helper.make_graph(nodes, "dual", value, outs, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def pictures(seed: int) -> list[np.ndarray]:
    """Two uint8 NHWC inputs."""
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 256, (1, 32, 32, 3), dtype=np.uint8) for _ in range(2)]


def convert(onnx_file: Path, platform: str, out: Path, quantise: bool, golden: Path | None) -> None:
    rknn = RKNN(verbose=False)
    rknn.config(target_platform=platform, mean_values=[[127.5] * 3] * 2, std_values=[[127.5] * 3] * 2)
    if rknn.reg_custom_op(cstDualResidual()) != 0:
        sys.exit("the toolkit refused the operator")
    with tempfile.TemporaryDirectory() as folder:
        lines = []
        for n in range(8):
            names = [f"{folder}/{n}_{i}.npy" for i in range(2)]
            for name, picture in zip(names, pictures(100 + n)):
                np.save(name, picture.transpose(0, 3, 1, 2))
            lines.append(" ".join(names))
        Path(folder, "dataset.txt").write_text("\n".join(lines))
        for step in (
            lambda: rknn.load_onnx(str(onnx_file)),
            lambda: rknn.build(do_quantization=quantise, dataset=f"{folder}/dataset.txt"),
            lambda: rknn.export_rknn(str(out)),
            lambda: rknn.init_runtime(),
        ):
            if step() != 0:
                sys.exit(f"{platform}: the converter refused this model, see its messages above")
    if golden is not None:  # what the simulator answers to one pair of pictures
        inputs = pictures(1)
        outputs = rknn.inference(inputs, data_format=["nhwc"] * 2)
        np.savez_compressed(
            golden,
            **{f"in{i}": a for i, a in enumerate(inputs)},
            **{f"out{i}": a for i, a in enumerate(outputs)},
        )
    rknn.release()


def main() -> None:
    golden = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "dual.onnx"
        make_onnx(model)
        for platform, name in TARGETS.items():
            answer = golden / f"dual_{name}.npz" if golden else None
            convert(model, platform, HERE / f"dual_for_{name}.rknn", True, answer)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads our output may have enough of it
    main()
