"""Writes ``weighted.onnx``: a picture of any size and a weight per channel, to weighted means and twice the picture."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import TensorProto, helper

NODES = [
    helper.make_node("GlobalAveragePool", ["picture"], ["pooled"]),
    helper.make_node("Flatten", ["pooled"], ["means"]),
    helper.make_node("Mul", ["means", "weights"], ["scores"]),
    helper.make_node("Add", ["picture", "picture"], ["doubled"]),
]
INPUTS = [
    helper.make_tensor_value_info("picture", TensorProto.FLOAT, ["n", 3, "height", "width"]),
    helper.make_tensor_value_info("weights", TensorProto.FLOAT, ["n", 3]),
]
OUTPUTS = [
    helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", 3]),
    helper.make_tensor_value_info("doubled", TensorProto.FLOAT, ["n", 3, "height", "width"]),
]

if __name__ == "__main__":
    graph = helper.make_graph(NODES, "weighted", INPUTS, OUTPUTS)
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])
    onnx.save(model, Path(__file__).with_name("weighted.onnx"))
