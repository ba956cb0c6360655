"""Node attributes of the container: the typed union first, the BSON document second."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from rknnlite.errors import ModelInvalid
from rknnlite.formats.flatbuffer import Table
from rknnlite.formats.slots import NodeSlot, UnionCode

from . import bson

__all__ = ["LEFT_OUT", "MINI_UNIONS", "UNIONS", "read_attributes", "unread_attributes"]

Unions = Mapping[int, Mapping[int, tuple[str, str]]]
UNIONS: Unions = {
    UnionCode.CONV: {
        0: ("auto_pad", "s"), 1: ("dilations", "is"), 2: ("group", "i"), 3: ("kernel_shape", "is"),
        4: ("pads", "is"), 5: ("strides", "is"),
    },
    UnionCode.CONV_TRANSPOSE: {
        1: ("dilations", "is"), 2: ("group", "i"), 3: ("kernel_shape", "is"), 4: ("output_padding", "is"),
        6: ("pads", "is"), 7: ("strides", "is"),
    },
    UnionCode.MAX_POOL: {
        1: ("ceil_mode", "i"), 2: ("dilations", "is"), 3: ("kernel_shape", "is"), 4: ("pads", "is"),
        6: ("strides", "is"),
    },
    UnionCode.AVERAGE_POOL: {
        1: ("ceil_mode", "i"), 2: ("count_include_pad", "i"), 3: ("kernel_shape", "is"), 4: ("pads", "is"),
        5: ("strides", "is"),
    },
    UnionCode.LEAKY_RELU: {0: ("alpha", "f")},
    UnionCode.BATCH_NORMALIZATION: {0: ("epsilon", "f"), 1: ("momentum", "f")},
    UnionCode.CONCAT: {0: ("axis", "i")},
    UnionCode.SPLIT: {0: ("axis", "i"), 1: ("split", "is")},
    UnionCode.TRANSPOSE: {0: ("perm", "is")},
    UnionCode.RESIZE: {
        0: ("coordinate_transformation_mode", "s"), 4: ("mode", "s"), 5: ("nearest_mode", "s"),
    },
    UnionCode.ROI_ALIGN: {
        0: ("mode", "s"), 1: ("output_height", "i"), 2: ("output_width", "i"), 3: ("sampling_ratio", "i"),
        4: ("spatial_scale", "f"),
    },
    UnionCode.MAX_UNPOOL: {0: ("kernel_shape", "is"), 2: ("strides", "is")},
    UnionCode.MAX_ROI_POOL: {0: ("pooled_shape", "is"), 1: ("spatial_scale", "f")},
    UnionCode.PAD: {0: ("mode", "s")},
    UnionCode.LRN: {0: ("alpha", "f"), 1: ("beta", "f"), 2: ("bias", "f"), 3: ("size", "i")},
    UnionCode.SPACE_TO_DEPTH: {0: ("blocksize", "i")},
    UnionCode.GATHER: {0: ("axis", "i")},
    UnionCode.ARG_MAX: {0: ("axis", "i"), 2: ("select_last_index", "i")},
    UnionCode.ARG_MIN: {0: ("axis", "i"), 2: ("select_last_index", "i")},
    UnionCode.REDUCE_MAX: {0: ("axes", "is")},
    UnionCode.REDUCE_MIN: {0: ("axes", "is")},
    UnionCode.EX_SOFTMAX: {0: ("axis", "i")},
    UnionCode.MINI_EX_NORM: {0: ("mode", "s"), 1: ("epsilon", "f"), 2: ("axes", "is")},
    UnionCode.LOG_SOFTMAX: {0: ("axis", "i")},
    UnionCode.EX_CONV_TRANSPOSE_PAD: {
        1: ("dilations", "is"), 2: ("group", "i"), 3: ("kernel_shape", "is"), 6: ("pads", "is"),
        7: ("strides", "is"),
    },
    UnionCode.EX_GRU: {
        1: ("hidden_size", "i"), 2: ("x_layout", "s"), 3: ("linear_before_reset", "i"),
        4: ("y_layout", "s"), 5: ("sequences", "i"),
    },
    UnionCode.GRU: {0: ("direction", "s"), 1: ("hidden_size", "i"), 2: ("linear_before_reset", "i")},
    UnionCode.EX_GLU: {0: ("axis", "i")},
    UnionCode.EX_WINDOW: {0: ("mode", "s"), 1: ("num_windows", "is"), 2: ("window_sizes", "is")},
    UnionCode.EX_NORM: {0: ("mode", "s"), 1: ("epsilon", "f"), 2: ("axes", "is")},
    UnionCode.TOP_K: {0: ("axis", "i"), 1: ("largest", "i"), 2: ("sorted", "i")},
    UnionCode.HARDMAX: {0: ("axis", "i")},
    UnionCode.MOD: {0: ("fmod", "i")},
    UnionCode.CAST: {0: ("saturate", "i"), 1: ("to", "i")},
    UnionCode.GRID_SAMPLE: {0: ("align_corners", "i"), 1: ("mode", "s"), 2: ("padding_mode", "s")},
    UnionCode.EX_LSTM: {
        2: ("activations", "ss"), 4: ("clip", "f"),
        5: ("direction", "s"), 6: ("h_layout", "s"), 8: ("x_layout", "s"), 9: ("y_layout", "s"),
    },
}  # fmt: skip
"""Union code -> {slot: (attribute name, kind)}; kinds: s text, ss texts, i int, f float, is ints."""
MINI_UNIONS = {
    **{code: slots for code, slots in UNIONS.items() if code not in (UnionCode.HARDMAX, UnionCode.MOD)},
    UnionCode.GRU: {0: ("hidden_size", "i"), 1: ("linear_before_reset", "i")},
}
"""The same in the mini format, which has no direction. Its later numbers are others."""
_PASSED_OVER: dict[int, frozenset[int]] = {
    **dict.fromkeys(
        (
            UnionCode.CONV_TRANSPOSE,
            UnionCode.MAX_POOL,
            UnionCode.AVERAGE_POOL,
            UnionCode.EX_CONV_TRANSPOSE_PAD,
        ),
        frozenset({0}),
    ),
    UnionCode.EX_GRU: frozenset({0}),
    UnionCode.EX_LSTM: frozenset({0, 1, 3, 11}),
}
"""Slots that verified files fill and nobody has to read: names of automatic padding, sizes of recurrent nodes."""
_MOST_SLOTS = 24
_BY_OP = {"exLSTM": UnionCode.EX_LSTM, "LSTM": UnionCode.EX_LSTM}  # the mini format gives it the code of Cast
_ALWAYS = {"axis"}  # an absent scalar slot means zero, which for these is a value, not a default

LEFT_OUT = {"RoiAlign": "coordinate_transformation_mode"}
"""Type -> an attribute that its union lacks, so that only the document tells it."""


def read_attributes(
    node: Table, op: str, code: int, union: Table | None, unions: Unions = UNIONS
) -> dict[str, Any]:
    """Attributes by ONNX name; garbage in the BSON place is ignored."""
    attrs: dict[str, Any] = {}
    try:
        data = node.data(NodeSlot.DOCUMENT)
        document = bson.decode(data) if len(data) >= 5 else {}
    except (bson.BsonError, ModelInvalid):
        document = {}  # recurrent nodes and output markers carry garbage here
    if document:
        for name, entry in document.items():
            if isinstance(entry, dict) and "value" in entry:
                attrs[name] = entry["value"]
    if union is not None:
        for slot, (name, kind) in unions.get(_BY_OP.get(op, code), {}).items():
            if union.has(slot):
                with contextlib.suppress(ModelInvalid):  # recurrent nodes leave garbage in unused slots
                    attrs[name] = _field(union, slot, kind)
            elif name in _ALWAYS:
                attrs.setdefault(name, 0)
    return attrs


def unread_attributes(op: str, code: int, union: Table | None, unions: Unions = UNIONS) -> list[str]:
    """What the attributes of a node hold beyond those that are read; such a slot was never seen filled."""
    if union is None:
        return []
    code = _BY_OP.get(op, code)
    filled = [slot for slot in range(_MOST_SLOTS) if union.has(slot)]
    known = unions.get(code)
    if known is None:
        return [f"attributes in a table of the unknown kind {code} are not read"] if filled else []
    unread = [slot for slot in filled if slot not in known and slot not in _PASSED_OVER.get(code, ())]
    return [f"attribute {slot} in its table of kind {code} is filled, but not known" for slot in unread]


def _field(union: Table, slot: int, kind: str) -> Any:
    if kind == "s":
        return union.string(slot)
    if kind == "i":
        return union.i32(slot)
    if kind == "f":
        return union.f32(slot)
    if kind == "ss":
        return union.strings(slot)[:64]
    return union.i32s(slot)[:64].tolist()
