"""Nodes that are not lowered, because ONNX has no words for them: they stand in a domain of our own, with what is known of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import numpy_helper
from rknnlite_graph.graph import Node
from rknnlite_graph.node_view import NodeView

from .lowered_values import LoweredValues
from .registry import LoweredNode

__all__ = ["DOMAIN", "write_unlowered"]

DOMAIN = "rknnlite"
_PLAIN = (bool, int, float, str, bytes)


def write_unlowered(values: LoweredValues, node: Node) -> None:
    """One node of the domain: operands and results are reals, attributes those of the file.

    Decoded weights, which are no operands, are attributes, too.
    """
    view = NodeView(values.graph, node)
    lowered = LoweredNode(view, values)
    names = [lowered.native(i) if view.has(i) else "" for i in range(len(view.inputs))]
    attrs = {key: _attribute(value) for key, value in node.attrs.items()}
    for part in (node.conv, node.recurrent):
        attrs.update(_weights(part))
    made = values.emitter.nodes(node.op, names, len(view.outputs), DOMAIN, **attrs)
    for position, name in enumerate(made):
        lowered.store(name, position)


def _attribute(value: Any) -> Any:
    """What ONNX can hold; other values as text, empty lists not at all."""
    if isinstance(value, _PLAIN):
        return int(value) if isinstance(value, bool) else value
    if isinstance(value, (list, tuple)):
        kinds = {type(each) for each in value}
        if not kinds:
            return None
        if kinds <= {int, bool} or kinds <= {int, float} or kinds == {str}:
            return list(value) if kinds != {int, float} else [float(each) for each in value]
    if isinstance(value, np.ndarray):
        return numpy_helper.from_array(value)
    return str(value)


def _weights(part: Any) -> dict[str, Any]:
    """Arrays among decoded parameters."""
    if part is None or getattr(part, "computed", False):
        return {}
    found = {}
    for name in ("weight", "bias", "w", "r", "w_bias", "r_bias"):
        value = getattr(part, name, None)
        array = value() if callable(value) else value
        if isinstance(array, np.ndarray):
            found[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)
    return found
