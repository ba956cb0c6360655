"""What the toolkit calibrates inside a layer normalisation for RV1106, where its simulator computes one in steps.

The centred values, the factor 1 / deviation and their product each have a step, the largest magnitude of the calibration
over 127 or, in other networks, 32,767. The file does not hold these: the board computes such a layer in float32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

__all__ = ["norm_ranges"]

Array = NDArray[Any]


def norm_ranges(path: Path, sets: Sequence[Sequence[Any]]) -> dict[str, Array]:
    """Name of a normalisation's output -> (centred, factor, normal): largest magnitudes for all sets of float inputs.

    Written as LayerNormalization along the last axis, or as a chain of Sub, Sqrt, Div with a Mul and an Add behind it.
    """
    import onnxruntime

    model = onnx.load(str(path))
    found = dict(_norms(model.graph))
    if not found:
        return {}
    names = sorted({name for norm in found.values() for name in norm[1]})
    known = {info.name for info in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in known)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    inputs = [entry.name for entry in session.get_inputs()]
    ranges = {name: np.zeros(3) for name in found}
    for arrays in sets:
        values = dict(zip(names, session.run(names, dict(zip(inputs, arrays, strict=True)))))
        for name, (eps, operands) in found.items():
            parts = _parts([values[o].astype(np.float64) for o in operands], eps)
            ranges[name] = np.maximum(ranges[name], [np.abs(part).max() for part in parts])
    return ranges


def _parts(operands: list[Array], eps: float) -> tuple[Array, Array, Array]:
    """Centred values, factor, normal values; of the input alone or of centred values and deviation."""
    if len(operands) == 1:
        centred = operands[0] - operands[0].mean(-1, keepdims=True)
        deviation = np.sqrt(np.square(centred).mean(-1, keepdims=True) + eps)
    else:
        centred, deviation = operands
    return centred, 1 / deviation, centred / deviation


def _norms(graph: Any) -> Iterator[tuple[str, tuple[float, tuple[str, ...]]]]:
    makers = {name: node for node in graph.node for name in node.output}
    users: dict[str, list[Any]] = {}
    for node in graph.node:
        for name in node.input:
            users.setdefault(name, []).append(node)
    for node in graph.node:
        if node.op_type == "LayerNormalization":
            facts = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            yield node.output[0], (float(facts.get("epsilon", 1e-5)), (node.input[0],))
        above = [makers[name].op_type if name in makers else "" for name in node.input]
        if node.op_type == "Div" and above == ["Sub", "Sqrt"]:
            name = node.output[0]
            norm = (0.0, tuple(node.input))
            yield name, norm
            for op in ("Mul", "Add"):
                after = [user for user in users.get(name, []) if user.op_type == op]
                if len(after) != 1:
                    break
                name = after[0].output[0]
                yield name, norm
