"""An ONNX network with the very weights of a genuine file: what its network was, but for quantisation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_graph.float_graph import float_graph
from rknnlite_graph.graph import Graph, Node
from rknnlite_graph.read import read_graph

from rknnlite.formats import ModelFile


def write_twin(model: Path, target: Path) -> Path:
    """Write the twin of a network of convolutions, Add and Concat; the test is skipped without onnx."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    graph = float_graph(read_graph(ModelFile(model).model))
    weights: list[Any] = []
    nodes = [made for node in graph.nodes for made in _nodes(onnx, node, graph, weights)]
    network = onnx.helper.make_graph(
        nodes, "twin", [_info(onnx, graph, i) for i in graph.inputs], [_info(onnx, graph, i) for i in graph.outputs],
        weights,
    )  # fmt: skip
    opsets = [onnx.helper.make_opsetid("", 13)]
    onnx.save(onnx.helper.make_model(network, opset_imports=opsets, ir_version=8), str(target))
    return target


def _info(onnx: Any, graph: Graph, index: int) -> Any:
    tensor = graph.tensors[index]
    return onnx.helper.make_tensor_value_info(tensor.name, onnx.TensorProto.FLOAT, list(tensor.shape))


def _nodes(onnx: Any, node: Node, graph: Graph, weights: list[Any]) -> list[Any]:
    make, names = onnx.helper.make_node, [tensor.name for tensor in graph.tensors]
    inputs, outputs = [names[i] for i in node.inputs], [names[i] for i in node.outputs]
    if node.op in ("InputOperator", "OutputOperator"):
        return []
    if node.op in ("Add", "Concat"):
        return [make(node.op, inputs, outputs, **({"axis": 1} if node.op == "Concat" else {}))]
    assert node.op in ("Conv", "ConvRelu") and node.conv is not None, node.op
    conv, before = node.conv, f"{outputs[0]}_before"
    for kind, values in (("w", conv.weight()), ("b", conv.bias)):
        weights.append(onnx.numpy_helper.from_array(np.asarray(values, np.float32), f"{outputs[0]}_{kind}"))
    made = make(
        "Conv", [inputs[0], f"{outputs[0]}_w", f"{outputs[0]}_b"], [before if node.op == "ConvRelu" else outputs[0]],
        strides=conv.strides, dilations=conv.dilations, pads=[*conv.pads, *conv.pads],
    )  # fmt: skip
    return [made, make("Relu", [before], outputs)] if node.op == "ConvRelu" else [made]
