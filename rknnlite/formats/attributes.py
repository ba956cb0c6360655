"""Node attributes of the container: the typed union first, the BSON document second."""

from __future__ import annotations

import contextlib
from typing import Any

from ..errors import ModelInvalid
from . import bson
from .flatbuffer import Table

__all__ = ["NEEDED", "read_attributes"]

# union code -> {slot: (attribute name, kind)}; kinds: s text, i int, f float, is ints
_UNION: dict[int, dict[int, tuple[str, str]]] = {
    1: {0: ("auto_pad", "s"), 1: ("dilations", "is"), 2: ("group", "i"), 3: ("kernel_shape", "is"),
        4: ("pads", "is"), 5: ("strides", "is")},
    2: {1: ("dilations", "is"), 2: ("group", "i"), 3: ("kernel_shape", "is"), 4: ("output_padding", "is"),
        6: ("pads", "is"), 7: ("strides", "is")},
    3: {1: ("ceil_mode", "i"), 2: ("dilations", "is"), 3: ("kernel_shape", "is"), 4: ("pads", "is"),
        6: ("strides", "is")},
    5: {1: ("ceil_mode", "i"), 2: ("count_include_pad", "i"), 3: ("kernel_shape", "is"), 4: ("pads", "is"),
        5: ("strides", "is")},
    9: {0: ("alpha", "f")},
    17: {0: ("epsilon", "f"), 1: ("momentum", "f")},
    19: {0: ("axis", "i")},
    20: {0: ("axis", "i"), 1: ("split", "is")},
    25: {0: ("perm", "is")},
    26: {0: ("coordinate_transformation_mode", "s"), 4: ("mode", "s"), 5: ("nearest_mode", "s")},
    30: {0: ("mode", "s")},
    31: {0: ("alpha", "f"), 1: ("beta", "f"), 2: ("bias", "f"), 3: ("size", "i")},
    33: {0: ("blocksize", "i")},
    50: {0: ("axis", "i")},
    51: {0: ("axis", "i"), 2: ("select_last_index", "i")},
    52: {0: ("axis", "i"), 2: ("select_last_index", "i")},
    53: {0: ("axes", "is")},
    54: {0: ("axes", "is")},
    61: {0: ("axis", "i")},
    62: {0: ("mode", "s"), 1: ("epsilon", "f"), 2: ("axes", "is")},
    64: {0: ("axis", "i")},
    66: {1: ("dilations", "is"), 2: ("group", "i"), 3: ("kernel_shape", "is"), 6: ("pads", "is"),
         7: ("strides", "is")},
    67: {1: ("hidden_size", "i"), 2: ("x_layout", "s"), 3: ("linear_before_reset", "i"),
         4: ("y_layout", "s"), 5: ("sequences", "i")},
    71: {0: ("direction", "s"), 1: ("hidden_size", "i"), 2: ("linear_before_reset", "i")},
    87: {0: ("mode", "s"), 1: ("epsilon", "f"), 2: ("axes", "is")},
    89: {0: ("axis", "i"), 1: ("largest", "i"), 2: ("sorted", "i")},
    96: {0: ("saturate", "i"), 1: ("to", "i")},
    97: {0: ("align_corners", "i"), 1: ("mode", "s"), 2: ("padding_mode", "s")},
    98: {5: ("direction", "s"), 6: ("h_layout", "s"), 8: ("x_layout", "s"), 9: ("y_layout", "s")},
}  # fmt: skip
_BY_OP = {"exLSTM": 98, "LSTM": 98}  # the mini format gives it the code of Cast
_ALWAYS = {"axis"}  # an absent scalar slot means zero, which for these is a value, not a default


NEEDED = frozenset(
    {
        "ArgMax", "ArgMin", "AveragePool", "Celu", "Concat", "CumSum", "DepthToSpace", "Gather", "GatherElements",
        "GatherND", "GlobalLpPool", "GridSample", "Hardmax", "LRN", "LogSoftmax", "LpNormalization", "LpPool",
        "MaxPool", "MeanVarianceNormalization", "Mod", "OneHot", "ReduceMax", "ReduceMin", "ScatterElements",
        "ScatterND", "Shrink", "SpaceToDepth", "Split", "ThresholdedRelu", "TopK", "Transpose", "Trilu", "exNorm",
        "exSoftmax13",
    }
)  # fmt: skip
"""Types whose result depends on attributes; the mini format and containers before 6 leave out those of some."""


def read_attributes(node: Table, op: str, code: int, union: Table | None) -> dict[str, Any]:
    """Attributes by ONNX name; garbage in the BSON place is ignored."""
    attrs: dict[str, Any] = {}
    try:
        data = node.data(9)
        document = bson.decode(data) if len(data) >= 5 else {}
    except (bson.BsonError, ModelInvalid):
        document = {}  # recurrent nodes and output markers carry garbage here
    if document:
        for name, entry in document.items():
            if isinstance(entry, dict) and "value" in entry:
                attrs[name] = entry["value"]
    if union is not None:
        for slot, (name, kind) in _UNION.get(_BY_OP.get(op, code), {}).items():
            if union.has(slot):
                with contextlib.suppress(ModelInvalid):  # recurrent nodes leave garbage in unused slots
                    attrs[name] = _field(union, slot, kind)
            elif name in _ALWAYS:
                attrs.setdefault(name, 0)
    return attrs


def _field(union: Table, slot: int, kind: str) -> Any:
    if kind == "s":
        return union.string(slot)
    if kind == "i":
        return union.i32(slot)
    if kind == "f":
        return union.f32(slot)
    return union.i32s(slot)[:64].tolist()
