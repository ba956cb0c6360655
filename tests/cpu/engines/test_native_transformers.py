"""What transformers and segmentation networks are made of, on the native engine: the bytes of the numpy kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from rknnlite_cpu.engines.native import description
from rknnlite_cpu.engines.native.library import Library
from rknnlite_cpu.engines.native.lowering import NativeLowering
from rknnlite_cpu.engines.partition import segment_of
from rknnlite_graph.graph import Graph, Node, Tensor, TensorRole
from rknnlite_graph.lowering import Form, NotLowered

from rknnlite.errors import ModelInvalid
from rknnlite.tensor import DType
from tests.cpu.engines import native

Array = np.ndarray[Any, Any]


def stored(index: int, values: Array, dtype: DType = DType.FLOAT32) -> Tensor:
    """An operand of the file."""
    one = native.tensor(index, values.shape)
    return replace(one, dtype=dtype, quant=None, role=TensorRole.CONST, load=lambda: values)


def attention(heads: int, depth: int, queries: int, keys: int, channels: int, first: bool = False) -> Graph:
    shapes = [
        (heads, depth, 1, queries),
        (heads, depth, 1, keys),
        (heads, channels, 1, keys),
        (heads, channels, 1, queries),
    ]
    zeros, scales = (-1, 5, -12, 6), (0.02, 0.018, 0.021, 0.0084)
    tensors = [native.tensor(i, *given) for i, given in enumerate(zip(shapes, zeros, scales))]
    tensors[3] = replace(tensors[3], zero_first=first)
    attrs = {"scale": depth**-0.5, "score_step": 0.0146, "score_zero_point": -3, "weight_step": 1 / 255}
    if keys > 16:
        attrs["weight_step"] = 0.0004
    return native.graph_of(tensors, [Node(0, "exSDPAttention", "a", [0, 1, 2], [3], attrs)])


@pytest.mark.slow
@pytest.mark.parametrize(
    "sizes",
    [
        (3, 64, 197, 197, 64),
        (1, 4, 1, 1, 1),
        (2, 32, 7, 70, 20),
        (1, 16, 9, 64, 16),
        (4, 64, 130, 65, 48),
        (1, 512, 3, 5, 33),
    ],
    ids=str,
)
def test_attention(built: Library, sizes: tuple[int, int, int, int, int]) -> None:
    for threads in (1, 2, 3):
        assert native.differing(built, attention(*sizes, first=threads == 2), sum(sizes), threads) == 0


def test_attention_with_a_mask_is_left_to_numpy(built: Library) -> None:
    graph = attention(1, 8, 4, 4, 8)
    mask = native.tensor(4, (1, 4, 1, 4))
    with pytest.raises(NotLowered, match="mask"):
        node = replace(graph.nodes[0], inputs=[0, 1, 2, 4])
        native.program(
            built, replace(graph, tensors=[*graph.tensors, mask], nodes=[node], inputs=[0, 1, 2, 4]), 1
        )


@pytest.mark.parametrize("mode", ["layer", "rms", "l2", "l1", "pixel"])
@pytest.mark.parametrize("channels", [1, 3, 16, 40, 192])
def test_norms(built: Library, mode: str, channels: int) -> None:
    random = np.random.default_rng(channels)
    for number, shape in enumerate([(1, channels, 1, 19), (2, channels, 5, 3)]):
        tensors = [native.tensor(0, shape, -7, 0.034), native.tensor(1, shape, 3, 0.039)]
        tensors[1] = replace(tensors[1], zero_first=channels == 3)
        inputs = [0]
        if number:
            for index in (2, 3):
                values = random.normal(size=(1, channels, 1, 1)).astype(np.float32)
                tensors.append(stored(index, values))
                inputs.append(index)
        node = Node(0, "exNorm", "n", inputs, [1], {"axes": [1], "eps": 1e-5, "mode": mode})
        graph = replace(native.graph_of(tensors, [node]), inputs=[0])
        for threads in (1, 3):
            assert native.differing(built, graph, number, threads) == 0


def resized(shape: tuple[int, ...], target: tuple[int, ...], **attrs: str) -> Graph:
    scales = np.array([b / a for a, b in zip(shape, target)], np.float32)
    tensors = [native.tensor(0, shape, 11), native.tensor(1, target, 11), stored(2, scales)]
    if attrs["mode"] == "linear":
        tensors[1] = native.tensor(1, target, -5, 0.04)
    node = Node(0, "Resize", "r", [0, -1, 2], [1], attrs)
    return replace(native.graph_of(tensors, [node]), inputs=[0])


@pytest.mark.parametrize("where", ["half_pixel", "asymmetric", "align_corners"])
@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_resizes(built: Library, mode: str, where: str) -> None:
    for shape, target in (
        ((1, 21, 8, 9), (1, 21, 64, 27)),
        ((2, 16, 7, 5), (2, 16, 5, 11)),
        ((1, 3, 1, 4), (1, 3, 6, 4)),
    ):
        graph = resized(shape, target, mode=mode, coordinate_transformation_mode=where, nearest_mode="floor")
        for threads in (1, 2, 3):
            assert native.differing(built, graph, 1, threads) == 0


def test_pads_and_chosen_rows(built: Library) -> None:
    pads = np.array([0, 0, 2, 1, 0, 0, 1, -3], np.int64)
    rows = np.array([5, 0, -1, 3, 3], np.int64)
    tensors = [
        native.tensor(0, (2, 19, 6, 8), 40), native.tensor(1, (2, 19, 9, 6), 40), native.tensor(2, (2, 19, 5, 6), 40),
        stored(3, pads, DType.INT64), stored(4, rows, DType.INT64),
    ]  # fmt: skip
    nodes = [
        Node(0, "Pad", "p", [0, 3], [1], {"mode": "constant"}),
        Node(1, "Gather", "g", [1, 4], [2], {"axis": 2}),
    ]
    graph = replace(native.graph_of(tensors, nodes), inputs=[0], outputs=[1, 2])
    assert native.differing(built, graph, 1, 2) == 0


def test_what_the_file_stores_is_joined(built: Library) -> None:
    random = np.random.default_rng(1)
    token = random.integers(-128, 128, (1, 24, 1, 1)).astype(np.int8)
    places = random.integers(-128, 128, (1, 24, 1, 10)).astype(np.int8)
    tensors = [
        native.tensor(0, (1, 24, 1, 9), 1, 0.026),
        native.tensor(1, (1, 24, 1, 10), 1, 0.026),
        native.tensor(2, (1, 24, 1, 10), -7),
    ]
    for index, values, zero, scale in ((3, token, -8, 0.011), (4, places, 0, 0.016)):
        constant = native.tensor(index, values.shape, zero, scale)
        tensors.append(replace(constant, role=TensorRole.CONST, load=lambda values=values: values))
    nodes = [Node(0, "Concat", "c", [3, 0], [1], {"axis": 3}), Node(1, "Add", "a", [1, 4], [2])]
    graph = replace(native.graph_of(tensors, nodes), inputs=[0], outputs=[1, 2])
    assert native.differing(built, graph, 1, 2) == 0


DAMAGES: dict[str, Any] = {
    "no values": lambda op: setattr(op, "third", None),
    "fewer exponentials": lambda op: op.arrays.update(numbers=op.arrays["numbers"][:-1]),
    "other heads": lambda op: setattr(op.other, "items", 1),
    "another depth": lambda op: setattr(op.x, "channels", 5),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_attention_is_refused(built: Library, damage: str) -> None:
    text = _text(built, attention(2, 8, 5, 5, 8))
    DAMAGES[damage](next(op for op in text.ops if op.kind == "ATTEND"))
    with pytest.raises(ModelInvalid, match="ATTEND"):
        description.ProgramText.unpack(text.pack())


@pytest.mark.parametrize(("kind", "mode"), [("BILINEAR", "linear"), ("PICK", "nearest")])
def test_places_outside_are_refused(built: Library, kind: str, mode: str) -> None:
    graph = resized(
        (1, 4, 3, 3),
        (1, 4, 5, 7),
        mode=mode,
        coordinate_transformation_mode="half_pixel",
        nearest_mode="floor",
    )
    text = _text(built, graph)
    op = next(op for op in text.ops if op.kind == kind)
    op.arrays["sizes"] = op.arrays["sizes"] + 2
    with pytest.raises(ModelInvalid, match=kind):
        description.ProgramText.unpack(text.pack())


def _text(built: Library, graph: Graph) -> description.ProgramText:
    segment = segment_of(graph, graph.nodes, [])
    return description.ProgramText.unpack(
        NativeLowering(built.layout).segment(graph, segment, Form.EXACT_INT8)
    )
