"""Model files made by hand: small, legible, and wrong on purpose where a test wants them so."""

from __future__ import annotations

import json
import struct
from typing import Any

from .flat import I8, Fields, build, f32s, i32s

INPUT, OUTPUT, ACTIVATION, CONST = 1, 2, 3, 5
FLOAT32, INT8, FLOAT16 = 1, 3, 10


def container(payload: bytes, version: int = 6, stub: Any = None, gap: int = 40) -> bytes:
    """Header, payload, JSON part."""
    text = json.dumps({"target_platform": ["rk3588"]} if stub is None else stub).encode()
    head = b"RKNN\0\0\0\0" + struct.pack("<QQ", version, len(payload)) + bytes(gap)
    return head + payload + struct.pack("<Q", len(text)) + text


def tensor(
    name: str,
    shape: tuple[int, ...],
    kind: int = ACTIVATION,
    dtype: int = FLOAT16,
    quant: tuple[float, int] | None = None,
    **more: Any,
) -> Fields:
    """A tensor table; ``more`` sets raw slots: ``s18=0`` is the number of its blob."""
    fields: dict[int, Any] = {0: I8(dtype), 2: I8(kind), 4: i32s(*shape), 5: name}
    if quant:
        fields |= {10: f32s(quant[0]), 11: i32s(quant[1])}
    return fields | {int(slot[1:]): value for slot, value in more.items()}


def node(op: str, inputs: list[int], outputs: list[int], name: str = "", **more: Any) -> Fields:
    """A node table of an operator that runs on the CPU."""
    fields: dict[int, Any] = {1: op, 2: name or op.lower(), 4: i32s(*inputs), 5: i32s(*outputs)}
    return fields | {int(slot[1:]): value for slot, value in more.items()}


def graph(tensors: list[Fields], nodes: list[Fields], inputs: list[int], outputs: list[int]) -> Fields:
    """A graph table."""
    return {0: tensors, 1: nodes, 2: i32s(*inputs), 3: i32s(*outputs)}


def root(graphs: list[Fields], attrs: str = "{}", blobs: list[bytes] | None = None, **more: Any) -> Fields:
    """The root table of a container-6 file for rk3588."""
    fields: dict[int, Any] = {
        0: 6, 1: "RKNPU v2", 2: graphs, 3: attrs, 7: "2.5.0 (compiler version: hand)", 8: "rk3588", 9: "ONNX",
        14: "0", 16: "static_shape", 20: [{0: blob} for blob in blobs or [b""]],
    }  # fmt: skip
    return fields | {int(slot[1:]): value for slot, value in more.items()}


def one_node(op: str = "Relu", shape: tuple[int, ...] = (1, 3, 4, 4), **more: Any) -> bytes:
    """A model of one element-wise fp16 operator between an input ``x`` and an output ``y``."""
    tensors = [tensor("x", shape, INPUT), tensor("y", shape, OUTPUT)]
    nodes = [node("InputOperator", [], [0]), node(op, [0], [1], **more), node("OutputOperator", [1], [])]
    return container(build(root([graph(tensors, nodes, [0], [1])])))
