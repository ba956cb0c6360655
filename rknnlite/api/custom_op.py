"""What programs written for the PC toolkit import beside their operator class."""

from __future__ import annotations

from typing import Any

__all__ = ["get_node_attr"]


def get_node_attr(node: Any, name: str) -> Any:
    """An attribute of the node that an operator computes, None when it is absent.

    Args:
        node: what ``compute`` and ``shape_infer`` get here; an ONNX NodeProto works too.
        name: attribute name.

    Returns:
        int, float, str or a list of them, as the PC toolkit's function of that name does.
    """
    attrs = getattr(node, "attrs", None)
    if attrs is not None:
        return attrs.get(name)
    return next((_onnx_value(a) for a in node.attribute if a.name == name), None)


def _onnx_value(attribute: Any) -> Any:
    """The value of an ONNX AttributeProto; type numbers of onnx.proto, so that onnx need not be installed."""
    kind = attribute.type
    if kind in (3, 8):  # STRING, STRINGS
        texts = [
            text.decode(errors="replace") for text in (attribute.strings if kind == 8 else [attribute.s])
        ]
        return texts if kind == 8 else texts[0]
    if kind in (6, 7):  # FLOATS, INTS
        return list(attribute.floats if kind == 6 else attribute.ints)
    return {1: attribute.f, 2: attribute.i}.get(kind)
