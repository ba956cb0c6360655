"""Attributes that a container leaves out but that the tensors of a node tell without doubt.

The mini format and old containers store the attributes of some operators only. What shapes and calibrated ranges
leave open is not guessed: such a node is refused, unless the caller knows its attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Optional

from rknnlite.errors import ParamInvalid
from rknnlite.formats.model import Attributes
from rknnlite.tensor import DType

from ..graph import Node, Tensor

__all__ = ["SuppliedAttributes", "axis_inside", "inferred_attributes"]

_ONNX_BOOL = 9
Found = Optional[dict[str, Any]]


class SuppliedAttributes:
    """Attributes that the caller supplies, by node name or by type, for nodes whose own the container leaves out."""

    def __init__(self, attributes: Attributes) -> None:
        if not isinstance(attributes, Mapping) or not all(
            isinstance(a, Mapping) for a in attributes.values()
        ):
            raise ParamInvalid(f"attributes must be {{node or type: {{name: value}}}}, not {attributes!r}")
        self._attributes = attributes
        self._taken: set[str] = set()

    def of(self, node: Node) -> Found:
        """Those of one node (empty: ONNX defaults), None without; its name goes before its type."""
        for key in (node.name, node.op):
            if key in self._attributes:
                self._taken.add(key)
                return dict(self._attributes[key])
        return None

    def check(self, nodes: list[Node]) -> None:
        """Raise ParamInvalid when some were for nobody."""
        for key in sorted(set(self._attributes) - self._taken):
            there = any(key in (node.name, node.op) for node in nodes)
            raise ParamInvalid(
                f"attributes of {key!r}: "
                + ("the model stores its own" if there else "no node has that name or type")
                + "; give attributes only for nodes that an error message asks for"
            )


def axis_inside(axis: Any, network: tuple[int, ...], inside: tuple[int, ...]) -> Any:
    """Where an axis of the network lies in the shape that the converter gave a tensor, with dimensions of one between.

    Told attributes count the network's dimensions; an axis that has one element in the file only is such a one.
    """
    rank = len(network)
    if not isinstance(axis, int) or not -rank <= axis < rank < len(inside) or inside[axis] != 1:
        return axis
    wide = [place for place, size in enumerate(inside) if size != 1]
    if network[axis] == 1 or [inside[place] for place in wide] != [size for size in network if size != 1]:
        return axis
    return wide[sum(size != 1 for size in network[: axis % rank])]


def inferred_attributes(node: Node, inputs: list[Tensor], outputs: list[Tensor]) -> dict[str, Any]:
    """Attributes by ONNX name; empty where the tensors do not decide.

    Args:
        inputs: operands that are given, in order. outputs: results.
    """
    rule = _RULES.get(node.op)
    return (rule(inputs, outputs) if rule and inputs and outputs else None) or {}


def _top_k(inputs: list[Tensor], outputs: list[Tensor]) -> Found:
    """The axis is the one that shrinks. The largest value of all is among the results of ``largest``, and only
    there the upper end of the calibrated range stays; likewise the lower end."""
    x, y = inputs[0], outputs[0]
    if x.quant is None or y.quant is None or len(x.shape) != len(y.shape):
        return None
    axes = [axis for axis, (before, after) in enumerate(zip(x.shape, y.shape)) if before != after]
    kept = [abs(a - b) <= x.quant.scale + y.quant.scale for a, b in zip(_ends(x), _ends(y))]
    if len(axes) != 1 or kept[0] == kept[1]:
        return None
    return {"axis": axes[0], "largest": int(kept[1])}


def _ends(tensor: Tensor) -> tuple[float, float]:
    """Smallest and largest value of an int8 tensor."""
    assert tensor.quant is not None
    return tuple((limit - tensor.quant.zero_point) * tensor.quant.scale for limit in (-128, 127))  # type: ignore[return-value]


def _gather_nd(inputs: list[Tensor], outputs: list[Tensor]) -> Found:
    """``batch_dims`` is the only number that gives the shape of the result."""
    if len(inputs) < 2 or not inputs[1].shape:
        return None
    data, index, result = inputs[0].shape, inputs[1].shape, outputs[0].shape
    fitting = [
        count
        for count in range(min(len(data), len(index)))
        if data[:count] == index[:count] and index[:-1] + data[count + index[-1] :] == result
    ]
    return {"batch_dims": fitting[0]} if len(fitting) == 1 else None


def _one_hot(inputs: list[Tensor], outputs: list[Tensor]) -> Found:
    """The axis is the only place whose removal gives the shape of the indices."""
    index, result = inputs[0].shape, outputs[0].shape
    places = [axis for axis in range(len(result)) if result[:axis] + result[axis + 1 :] == index]
    return {"axis": places[0]} if len(places) == 1 else None


def _cast(inputs: list[Tensor], outputs: list[Tensor]) -> Found:
    """Bool tensors are int8 of scale 1 without zero point; a cast to a number gets a calibrated scale."""
    quant = outputs[0].quant
    boolean = (
        outputs[0].dtype is DType.INT8 and quant is not None and (quant.scale, quant.zero_point) == (1.0, 0)
    )
    return {"to": _ONNX_BOOL} if boolean and inputs[0].quant != quant else None


def _mod(inputs: list[Tensor], outputs: list[Tensor]) -> Found:
    """ONNX allows real numbers with ``fmod`` only."""
    real = inputs[0].quant is not None or inputs[0].dtype.is_float
    return {"fmod": 1} if real else None


_RULES: dict[str, Callable[[list[Tensor], list[Tensor]], Found]] = {
    "TopK": _top_k,
    "GatherND": _gather_nd,
    "OneHot": _one_hot,
    "Cast": _cast,
    "Mod": _mod,
}
