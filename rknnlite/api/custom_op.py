"""What programs written for the PC toolkit import beside their operator class."""

from __future__ import annotations

from typing import Any

__all__ = ["get_node_attr"]


_FIELDS = ("", "f", "i", "s", "t", "g", "floats", "ints", "strings", "tensors", "graphs")
"""The field with the value of an ONNX attribute by its type, a number of onnx.proto; onnx need not be installed."""
_FIRST_LIST = _FIELDS.index("floats")


def get_node_attr(node: Any, name: str) -> Any:
    """An attribute of the node that an operator computes, None when it is absent.

    Args:
        node: what ``compute`` and ``shape_infer`` get here; an ONNX NodeProto works too.
        name: attribute name.

    Returns:
        What the PC toolkit's function of that name answers: int, float or str, a list of int or float, a list of
        bytes for several texts.
    """
    attrs = getattr(node, "attrs", None)
    if attrs is None:
        return next((_onnx_value(a) for a in node.attribute if a.name == name), None)
    value = attrs.get(name)
    if isinstance(value, list) and any(isinstance(item, str) for item in value):
        return [item.encode() for item in value]
    return value


def _onnx_value(attribute: Any) -> Any:
    value = getattr(attribute, _FIELDS[attribute.type])
    if isinstance(value, bytes):
        return value.decode()
    return list(value) if attribute.type >= _FIRST_LIST else value
