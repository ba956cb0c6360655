"""A TensorFlow Lite file through tf2onnx, in an environment of its own: ``python foreign_tflite.py FILE.tflite FILE.onnx``.

Inputs of rank 4 become NCHW. MediaPipe's own transposed convolution becomes ONNX's.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import onnx
import tensorflow as tf
import tf2onnx

_OPSET = 15


def main(source: str, path: str) -> None:
    """Convert."""
    reader = tf.lite.Interpreter(model_path=source)
    names = [entry["name"] for entry in reader.get_input_details() if len(entry["shape"]) == 4]
    tf2onnx.convert.from_tflite(source, opset=_OPSET, inputs_as_nchw=names, output_path=path)
    model = onnx.load(path)
    for node in [n for n in model.graph.node if n.op_type == "TFL_Convolution2DTransposeBias"]:
        _upsample(model.graph, node)
    onnx.save(model, path)


def _upsample(graph: Any, node: Any) -> None:
    """Kernel 2x2, stride 2: NHWC, weights (outputs, 2, 2, inputs)."""
    weights = next(tensor for tensor in graph.initializer if tensor.name == node.input[1])
    turned = onnx.numpy_helper.from_array(
        np.ascontiguousarray(onnx.numpy_helper.to_array(weights).transpose(3, 0, 1, 2)),
        f"{node.name}_weights",
    )
    graph.initializer.append(turned)
    make = onnx.helper.make_node
    start, middle = f"{node.name}_nchw", f"{node.name}_wide"
    steps = (
        make("Transpose", [node.input[0]], [start], perm=[0, 3, 1, 2]),
        make(
            "ConvTranspose",
            [start, turned.name, node.input[2]],
            [middle],
            strides=[2, 2],
            kernel_shape=[2, 2],
        ),
        make("Transpose", [middle], list(node.output), perm=[0, 2, 3, 1]),
    )
    place = list(graph.node).index(node)
    graph.node.remove(node)
    for n, step in enumerate(steps):
        graph.node.insert(place + n, step)


if __name__ == "__main__":
    main(*sys.argv[1:])
