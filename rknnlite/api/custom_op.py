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
    readers = {1: lambda: attribute.f, 2: lambda: attribute.i, 3: lambda: attribute.s.decode(errors="replace"),
               6: lambda: list(attribute.floats), 7: lambda: list(attribute.ints),
               8: lambda: [s.decode(errors="replace") for s in attribute.strings]}  # fmt: skip
    return readers[attribute.type]() if attribute.type in readers else None
