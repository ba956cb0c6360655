"""Names of the PC toolkit that files with operators import, so that such a file works where it is not installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from ..errors import ParamInvalid

__all__ = ["get_node_attr", "toolkit_names"]


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


class _RKNN:
    """Stands for the converter's class, which a file with operators may import and only a conversion uses."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise ParamInvalid(
            "RKNN of rknn-toolkit2 converts models and is not here; put what converts behind "
            "if __name__ == '__main__', or the operators into a file of their own"
        )


@contextmanager
def toolkit_names() -> Iterator[None]:
    """While the block runs, ``rknn.api`` and ``rknn.api.custom_op`` are ours; afterwards everything is as before.

    Ours even where the toolkit is installed: its functions do not know the nodes that operators get here.
    """
    package, api, custom_op = (ModuleType(name) for name in ("rknn", "rknn.api", "rknn.api.custom_op"))
    for parent, child in ((package, api), (api, custom_op)):
        parent.__path__ = []
        setattr(parent, child.__name__.rpartition(".")[2], child)
    vars(custom_op)["get_node_attr"] = get_node_attr
    vars(api)["RKNN"] = _RKNN
    before = {name: sys.modules.pop(name) for name in _present()}
    sys.modules.update({module.__name__: module for module in (package, api, custom_op)})
    try:
        yield
    finally:
        for name in _present():
            del sys.modules[name]
        sys.modules.update(before)


def _present() -> list[str]:
    return [name for name in sys.modules if name == "rknn" or name.startswith("rknn.")]
