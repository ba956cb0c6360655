"""Model files made by hand: small, legible, and wrong on purpose where a test wants them so."""

from __future__ import annotations

import json
import struct
from typing import Any

from rknnlite.formats.slots import BlobSlot, GraphSlot, NodeSlot, RootSlot, TensorKind, TensorSlot

from .flat import I8, Fields, build, f32s, i32s

INPUT, OUTPUT, ACTIVATION, CONST = (
    TensorKind.INPUT, TensorKind.OUTPUT, TensorKind.ACTIVATION, TensorKind.OPERAND,
)  # fmt: skip
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
    fields: dict[int, Any] = {
        TensorSlot.TYPE: I8(dtype), TensorSlot.KIND: I8(kind), TensorSlot.DIMS: i32s(*shape), TensorSlot.NAME: name,
    }  # fmt: skip
    if quant:
        fields |= {TensorSlot.SCALES: f32s(quant[0]), TensorSlot.ZERO_POINTS: i32s(quant[1])}
    return fields | {int(slot[1:]): value for slot, value in more.items()}


def node(op: str, inputs: list[int], outputs: list[int], name: str = "", **more: Any) -> Fields:
    """A node table of an operator that runs on the CPU."""
    fields: dict[int, Any] = {
        NodeSlot.TYPE: op, NodeSlot.NAME: name or op.lower(), NodeSlot.INPUTS: i32s(*inputs),
        NodeSlot.OUTPUTS: i32s(*outputs),
    }  # fmt: skip
    return fields | {int(slot[1:]): value for slot, value in more.items()}


def graph(tensors: list[Fields], nodes: list[Fields], inputs: list[int], outputs: list[int]) -> Fields:
    """A graph table."""
    return {
        GraphSlot.TENSORS: tensors, GraphSlot.NODES: nodes, GraphSlot.INPUTS: i32s(*inputs),
        GraphSlot.OUTPUTS: i32s(*outputs),
    }  # fmt: skip


def root(graphs: list[Fields], attrs: str = "{}", blobs: list[bytes] | None = None, **more: Any) -> Fields:
    """The root table of a container-6 file for rk3588."""
    fields: dict[int, Any] = {
        RootSlot.VERSION: 6, RootSlot.FAMILY: "RKNPU v2", RootSlot.GRAPHS: graphs, RootSlot.NOTES: attrs,
        RootSlot.VERSIONS: "2.5.0 (compiler version: hand)", RootSlot.PLATFORM: "rk3588", RootSlot.FRAMEWORK: "ONNX",
        RootSlot.BATCH: "0", RootSlot.SHAPE_KIND: "static_shape",
        RootSlot.BLOBS: [{BlobSlot.DATA: blob} for blob in blobs or [b""]],
    }  # fmt: skip
    return fields | {int(slot[1:]): value for slot, value in more.items()}


def one_node(op: str = "Relu", shape: tuple[int, ...] = (1, 3, 4, 4), **more: Any) -> bytes:
    """A model of one element-wise fp16 operator between an input ``x`` and an output ``y``."""
    tensors = [tensor("x", shape, INPUT), tensor("y", shape, OUTPUT)]
    nodes = [node("InputOperator", [], [0]), node(op, [0], [1], **more), node("OutputOperator", [1], [])]
    return container(build(root([graph(tensors, nodes, [0], [1])])))
