"""A QDQ network as the vendor's converter has to be told it, so that it keeps the steps."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, NodeProto, numpy_helper

__all__ = ["keeping_steps"]

_TAKEN_WIDER = np.float32(128) / np.float32(127)


def keeping_steps(model: ModelProto) -> ModelProto:
    """Values in int8 with zero point 0 get steps that are smaller by 127/128.

    The converter takes such steps as symmetric, from -128 to 128 steps, and stores them larger by 128/127.
    """
    found = ModelProto()
    found.CopyFrom(model)
    constants = {each.name: each for each in model.graph.initializer}
    made: dict[str, str] = {}
    for node in found.graph.node:
        if node.op_type not in ("QuantizeLinear", "DequantizeLinear") or node.input[0] in constants:
            continue
        scale, zero = (numpy_helper.to_array(constants[name]) for name in node.input[1:3])
        if zero.dtype != np.int8 or zero != 0:
            continue
        name = node.input[1]
        if name not in made:
            made[name] = f"{name}/symmetric"
            smaller = np.asarray(scale / _TAKEN_WIDER, np.float32)
            found.graph.initializer.append(numpy_helper.from_array(smaller, made[name]))
        node.input[1] = made[name]
    _part_outputs(found)
    return found


def _part_outputs(model: ModelProto) -> None:
    """Outputs that nodes read, too, get a node of their own: the converter loses track of such values."""
    outputs = {each.name for each in model.graph.output}
    read = {name for node in model.graph.node for name in node.input}
    nodes = []
    for node in model.graph.node:
        node.input[:] = [f"{name}/inside" if name in outputs else name for name in node.input]
        nodes.append(node)
        if node.op_type == "DequantizeLinear" and node.output[0] in outputs & read:
            twin = NodeProto()
            twin.CopyFrom(node)
            twin.name, twin.output[0] = f"{node.name}/inside", f"{node.output[0]}/inside"
            nodes.append(twin)
    kept = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(kept)
