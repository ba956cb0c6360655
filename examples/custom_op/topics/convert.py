#!/usr/bin/env python3
"""Make the two models of these examples for RK3588: attributes of every type, and several shapes.

python convert.py [ANSWERS]   # on an x86-64 PC with rknn-toolkit2; ANSWERS: a folder for what the simulator answers
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from attributes import cstSteps
from onnx import TensorProto, helper, numpy_helper
from rknn.api import RKNN
from shapes import cstTurn

HERE = Path(__file__).resolve().parent
ATTRIBUTES = {
    "power": 2,
    "gain": 0.5,
    "mode": "wrap",
    "origin": [1, -2],
    "mean": [0.25, -0.5, 1.0, 2.0],
    "steps": ["mean", "power", "table"],
}
SHAPES = {"attributes": [(8, 8)], "shapes": [(8, 12), (16, 8)]}


def make_onnx(path: Path, name: str) -> None:
    """A convolution, the operator, a convolution; random weights from a fixed seed."""
    rng = np.random.default_rng(3)
    weights = [numpy_helper.from_array(np.arange(4, dtype=np.float32).reshape(1, 4, 1, 1), "table")]

    def conv(source: str, target: str, channels_in: int) -> onnx.NodeProto:
        w = rng.normal(0, 1 / np.sqrt(channels_in), (4, channels_in, 1, 1)).astype(np.float32)
        weights.append(numpy_helper.from_array(w, f"{target}_w"))
        return helper.make_node("Conv", [source, f"{target}_w"], [target], name=target)

    if name == "attributes":
        node = helper.make_node(cstSteps.op_type, ["before", "table"], ["behind"], name="steps", **ATTRIBUTES)
        x, y = [1, 3, 8, 8], [1, 4, 8, 8]
    else:
        node = helper.make_node(cstTurn.op_type, ["before"], ["behind"], name="turn")
        x, y = [1, 3, "h", "w"], [1, 4, "w", "h"]
    nodes = [conv("x", "before", 3), node, conv("behind", "y", 4)]
    ends = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, shape)] for n, shape in (("x", x), ("y", y))]
    graph = helper.make_graph(nodes, name, *ends, weights if name == "attributes" else weights[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def convert(name: str, folder: Path) -> dict[str, np.ndarray]:
    """Write ``name.rknn``; inputs and the simulator's answers for every shape."""
    source = folder / f"{name}.onnx"
    make_onnx(source, name)
    shapes, rknn, found = SHAPES[name], RKNN(verbose=False), {}
    several = {"dynamic_input": [[[1, 3, *shape]] for shape in shapes]} if len(shapes) > 1 else {}
    rknn.config(target_platform="rk3588", mean_values=[[127.5] * 3], std_values=[[127.5] * 3], **several)
    for step in (
        lambda: rknn.load_onnx(str(source)),
        lambda: rknn.build(do_quantization=False),
        lambda: rknn.export_rknn(str(HERE / f"{name}_for_RK3588.rknn")),
        lambda: rknn.init_runtime(),
    ):
        if step() != 0:
            sys.exit("the converter refused this, see its messages above")
    for n, shape in enumerate(shapes):
        found[f"x{n}"] = np.random.default_rng(1).integers(0, 256, (1, *shape, 3), dtype=np.uint8)
        (found[f"y{n}"],) = rknn.inference([found[f"x{n}"]], data_format=["nhwc"])
    rknn.release()
    return found


def main() -> None:
    for op in (cstSteps(), cstTurn()):  # once, for all conversions of this process
        if RKNN().reg_custom_op(op) != 0:
            sys.exit("the converter refused the operator, see its messages above")
    with tempfile.TemporaryDirectory() as folder:
        for name in SHAPES:
            found = convert(name, Path(folder))
            if len(sys.argv) > 1:
                np.savez_compressed(Path(sys.argv[1]) / f"topics_{name}.npz", **found)


if __name__ == "__main__":
    main()
