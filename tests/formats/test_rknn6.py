"""Container version 6: metadata without the graph, the graph on demand, hand-made mischief."""

from __future__ import annotations

import contextlib
import json
import struct
from typing import Any

import numpy as np
import pytest
from rknnlite_graph.graph import TensorRole
from rknnlite_graph.read import read_graph

from rknnlite.errors import ModelInvalid, ModelUnsupported
from rknnlite.formats import ModelFile
from rknnlite.formats.flat_model import literal
from rknnlite.tensor import DType, Layout, QuantParams
from tests.support.corpus import genuine, goldens, open_cpu
from tests.support.damage import limits, table_places, tables_in
from tests.support.flat import I8, build, f32s, i32s
from tests.support.handmade import (
    CONST,
    FLOAT32,
    INPUT,
    INT8,
    OUTPUT,
    container,
    graph,
    node,
    one_node,
    root,
    tensor,
)


def made(tensors: list[Any], nodes: list[Any], outputs: list[int], **more: Any) -> bytes:
    return container(build(root([graph(tensors, nodes, [0], outputs)], **more)))


X = tensor("x", (1, 3, 4, 4), INPUT)
Y = tensor("y", (1, 3, 4, 4), OUTPUT)


def test_a_hand_made_model_runs() -> None:
    with open_cpu(one_node("Relu")) as context:
        x = np.arange(-24, 24, dtype=np.float32).reshape(1, 4, 4, 3)
        (y,) = context.infer(x)
        assert np.array_equal(y, np.maximum(x, 0).transpose(0, 3, 1, 2))


def test_metadata_of_a_genuine_file_comes_without_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    from rknnlite_graph.reading import builder

    monkeypatch.setattr(builder, "build_graph", None)
    model = ModelFile(genuine("mean_std.rk3588.i8")).model
    assert (model.container, model.platform, model.framework) == (6, "rk3588", "ONNX")
    assert model.platforms == ("rk3588",) and model.family == "RKNPU v2"
    assert model.toolkit_version.startswith("2.5.0")
    (image,) = model.inputs
    assert len(image.shape) == 4 and image.shape[1] == len(image.mean) == len(image.std) == 3
    assert image.dtype is DType.INT8 and image.quant is not None
    assert model.batch == 1 and not model.dynamic and model.shapes == []


def test_metadata_of_batch_and_dynamic_models() -> None:
    assert ModelFile(genuine("batch_four.rk3588.i8")).model.batch == 4
    model = ModelFile(genuine("dynamic_three.rk3588.i8")).model
    assert model.dynamic and len(model.shapes) == 3
    assert [model.io(i)[0][0].shape for i in range(3)] == [shapes[0] for shapes in model.shapes]


def test_metadata_of_a_hand_made_file() -> None:
    attrs = repr({"attrs": {"x": {"mean": [1, 2, 3], "std": [4.0, 5, 6]}}})
    tensors = [tensor("x", (1, 3, 4, 4), INPUT, INT8, (0.5, -3)), Y]
    data = container(
        build(
            root(
                [graph(tensors, [node("Relu", [0], [1])], [0], [1])], attrs,
                s8="rk3566", s11="my text", s12=json.dumps({"x": {"layout": "NHWC"}}), s14="3", s21="cstA;cstB",
            )
        ),
        stub={"target_platform": ["rk3566", "rk3568"]},
    )  # fmt: skip
    model = ModelFile(data).model
    assert (model.platform, model.platforms) == ("rk3566", ("rk3566", "rk3568"))
    assert (model.batch, model.custom_string, model.custom_ops) == (3, "my text", ("cstA", "cstB"))
    (x,), (y,) = model.inputs, model.outputs
    assert (x.mean, x.std, x.layout) == ((1.0, 2.0, 3.0), (4.0, 5.0, 6.0), Layout.NHWC)
    assert x.quant == QuantParams(0.5, -3) and y.quant is None and y.layout is Layout.NCHW


@pytest.mark.parametrize("name", ["conv_relu.rk3588.i8", "vit_like.rk3588.fp16", "dynamic_two.rk3568.i8"])
def test_graphs_are_in_order_and_closed(name: str) -> None:
    model = ModelFile(genuine(name)).model
    for number in range(max(1, len(model.shapes))):
        found = read_graph(model, number)
        known = set(found.inputs)
        for item in found.nodes:
            for index in item.inputs:
                assert index < 0 or index in known or found.tensors[index].role is TensorRole.CONST
            known.update(item.outputs)
        assert set(found.outputs) <= known
    with pytest.raises(ModelInvalid, match=r"graphs, not one numbered 9"):
        read_graph(model, 9)


def test_constants_are_read_when_they_are_asked_for() -> None:
    blob = np.arange(3, dtype=np.float32).tobytes()
    data = made(
        [X, tensor("k", (3, 1, 1), CONST, FLOAT32, s18=0), Y], [node("Add", [0, 1], [2])], [2], blobs=[blob]
    )
    found = read_graph(ModelFile(data).model)
    assert found.tensors[1].value().tolist() == [[[0.0]], [[1.0]], [[2.0]]]
    with pytest.raises(ValueError, match="tensor x is not a constant"):
        found.tensors[0].value()


BROKEN: dict[str, tuple[bytes, type[ModelInvalid], str]] = {
    "no inputs": (
        container(build(root([graph([X, Y], [], [], [1])]))),
        ModelInvalid,
        "0 inputs and 1 outputs",
    ),
    "input is no tensor": (
        container(build(root([graph([X, Y], [], [7], [1])]))),
        ModelInvalid,
        r"inputs and outputs \[7, 1\] are no tensors \(there are 2\)",
    ),
    "negative shape": (
        one_node(shape=(1, -3, 4, 4)),
        ModelInvalid,
        r"tensor x has the impossible shape \[1, -3",
    ),
    "huge shape": (one_node(shape=(1 << 20, 1 << 20)), ModelInvalid, "impossible shape"),
    "rank 17": (one_node(shape=(1,) * 17), ModelInvalid, "tensor x has rank 17, more than 16"),
    "element type": (
        made([tensor("x", (1,), INPUT, 99), Y], [], [1]),
        ModelUnsupported,  # a newer converter may have it: the vendor's library is asked
        "x: unknown element type 99",
    ),
    "zero scale": (
        made([tensor("x", (1,), INPUT, INT8, (0.0, 0)), Y], [], [1]),
        ModelInvalid,
        "tensor x has the impossible scale 0.0",
    ),
    "nan scale": (
        made([tensor("x", (1,), INPUT, INT8, (float("nan"), 0)), Y], [], [1]),
        ModelInvalid,
        "scale nan",
    ),
    "batch": (made([X, Y], [], [1], s14="999999"), ModelInvalid, "rknn_batch_size 999999"),
    "attributes": (
        made([X, Y], [], [1], attrs="__import__('os')"),
        ModelInvalid,
        "attribute text is no literal",
    ),
    "mean": (
        made([X, Y], [], [1], attrs="{'attrs': {'x': {'mean': ['a']}}}"),
        ModelInvalid,
        "mean of input x",
    ),
    "std zero": (
        made([X, Y], [node("Relu", [0], [1])], [1], attrs="{'attrs': {'x': {'std': [0.0, 1, 1]}}}"),
        ModelInvalid,
        "standard deviation of 0",
    ),
    "family": (
        made([X, Y], [node("Relu", [0], [1])], [1], s1="RKNPU x9"),
        ModelInvalid,
        "unknown NPU family",
    ),
    "platform": (
        container(build(root([graph([X, Y], [node("Relu", [0], [1])], [0], [1])], s8="rk1")), stub={}),
        ModelInvalid,
        "built for 'rk1', which is no SoC known here",
    ),
    "lost operator": (
        made([X, Y], [], [1]),
        ModelInvalid,
        "y is produced by no node: the converter dropped an operator",
    ),
    "cycle": (
        made([X, Y], [node("Relu", [0], [1]), node("Abs", [1], [1])], [1]),
        ModelInvalid,
        'node Abs "abs" writes a tensor that exists already',
    ),
    "no such tensor": (made([X, Y], [node("Relu", [5], [1])], [1]), ModelInvalid, r"tensor numbers \[5\]"),
    "no outputs": (
        made([X, Y], [node("Relu", [0], []), node("Abs", [0], [1])], [1]),
        ModelInvalid,
        "has no outputs",
    ),
    "no operand": (
        made([X, Y], [node("Relu", [], [1])], [1]),
        ModelInvalid,
        'Relu "relu": operand 0 is missing',
    ),
    "unknown node type": (
        one_node("Quux", s2="q1", s3=I8(2)),
        ModelUnsupported,
        'model in memory: node Quux "q1" has a type the CPU reference does not know',
    ),
    "blob": (
        made([X, tensor("k", (3, 1, 1), CONST, FLOAT32, s18=9), Y], [node("Add", [0, 1], [2])], [2]),
        ModelInvalid,
        r"constant k: blob 9 does not exist \(there are 1\)",
    ),
    "short blob": (
        made(
            [X, tensor("k", (3, 1, 1), CONST, FLOAT32, s18=0), Y],
            [node("Add", [0, 1], [2])],
            [2],
            blobs=[bytes(8)],
        ),
        ModelInvalid,
        r"constant k: shape \[3, 1, 1\], but 2 elements stored",
    ),
    "clash": (
        made([X, tensor("z", (1, 3, 4, 5), OUTPUT)], [node("Reshape", [0], [1])], [1]),
        ModelInvalid,
        r"cannot reshape \[1, 3, 4, 4\] to \[1, 3, 4, 5\]",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken(case: str) -> None:
    data, kind, message = BROKEN[case]
    with pytest.raises(ModelInvalid, match=message) as caught:
        open_cpu(data)
    assert type(caught.value) is kind and "model in memory" in str(caught.value)


def test_an_unknown_node_type_is_refused_at_load() -> None:
    with pytest.raises(ModelUnsupported, match=r'model in memory: node Quux "quux" has a type'):
        open_cpu(one_node("Quux"))


@pytest.mark.parametrize("op", ["cstDualResidual"])
def test_a_custom_operator_may_be_registered_after_opening(op: str) -> None:
    context = open_cpu(one_node(op))
    with pytest.raises(
        ModelUnsupported, match=rf"model in memory: node {op} .* nobody registered one of type {op}"
    ):
        context.infer(np.zeros((1, 4, 4, 3), np.float32))


def test_a_shape_that_the_operator_does_not_give_is_found_at_the_latest_when_it_runs() -> None:
    data = made([X, tensor("z", (1, 3, 4, 5), OUTPUT)], [node("Relu", [0], [1])], [1])
    with pytest.raises(
        ModelInvalid, match=r'node Relu "relu" gives shape \[1, 3, 4, 4\], the file says \[1, 3, 4, 5\]'
    ):
        open_cpu(data).infer(np.zeros((1, 4, 4, 3), np.float32))


# -- files that try to be more than their bytes ----------------------------------------------------------------


def with_shared(slot: int | None, shared: bytes, count: int = 3000) -> bytes:
    """A model with many tensors whose field ``slot`` (None: whose vtable) is one and the same place."""
    extra = [tensor(f"t{i}", (1,), s3=i32s(1)) for i in range(count)]
    flat = bytearray(build(root([graph([X, Y, *extra], [node("Relu", [0], [1])], [0], [1])])))
    tables = [place - 64 for place in table_places(container(bytes(flat)))[4 : 4 + count]]
    flat += bytes(-len(flat) % 4)
    target = len(flat)
    for table in tables:
        vtable = table - struct.unpack_from("<i", flat, table)[0]
        if slot is None:
            struct.pack_into("<i", flat, table, table - target)
        else:
            at = table + struct.unpack_from("<H", flat, vtable + 4 + 2 * slot)[0]
            struct.pack_into("<I", flat, at, target - at)
    return container(bytes(flat) + shared)


SHARED = {
    "name": (5, struct.pack("<I", 500_000) + b"n" * 500_000),
    "dims": (3, struct.pack("<I", 100_000) + bytes(400_000)),
    "shape": (4, struct.pack("<I", 100_000) + bytes(400_000)),
    "vtable": (None, struct.pack("<HH", 65534, 8) + bytes(65530)),
}


@pytest.mark.parametrize("what", SHARED)
def test_tables_that_share_their_contents_do_not_multiply(what: str) -> None:
    data = with_shared(*SHARED[what])
    with limits(20, 12 * len(data) + (4 << 20)):
        try:
            open_cpu(data)
        except ModelInvalid:
            assert what != "vtable"  # all fields of those tensors are absent: odd, but harmless


def test_graphs_that_share_their_tensors_do_not_multiply() -> None:
    small = graph([X, Y], [], [0], [1])
    large = graph([X, Y, *(tensor(f"t{i}", (1,)) for i in range(3000))], [node("Relu", [0], [1])], [0], [1])
    data = bytearray(container(build(root([*[small] * 3000, large]))))
    graphs = tables_in(data, table_places(data)[0], 2)
    target = graphs[-1] + 4
    target += struct.unpack_from("<I", data, target)[0]
    for place in graphs[:-1]:  # the first field of a graph is its list of tensors
        struct.pack_into("<I", data, place + 4, target - place - 4)
    with limits(20, 12 * len(data)), pytest.raises(ModelInvalid, match="3001 graphs share their tensors"):
        _ = ModelFile(bytes(data)).model


@pytest.mark.parametrize(
    "text", ["9" * 100_000, "[" * 50_000, "-" * 100_000 + "1", "{" + "1:1," * 40_000 + "}", "(" * 31 + "1" + ")" * 31,
             "'" + "a" * 100_000 + "'", "1+" * 50_000 + "1", "f'{1}'", "\0", "b'\\x00'", "..." , "not 1", "x"]
)  # fmt: skip
def test_literals_stay_small_and_are_never_run(text: str) -> None:
    with limits(20, 120 << 20), contextlib.suppress(ModelInvalid):
        assert isinstance(literal(text), dict)


def test_json_bomb() -> None:
    data = one_node()[: -len('{"target_platform": ["rk3588"]}') - 8]
    deep = b"[" * 100_000
    with limits(20, 64 << 20), pytest.raises(ModelInvalid, match="its JSON part cannot be read"):
        _ = ModelFile(data + struct.pack("<Q", len(deep)) + deep).model


def test_large_constant_on_paper() -> None:
    """A constant that claims gigabytes is refused before anything of its size is allocated."""
    big = tensor("k", (1, 1024, 1024, 1024), CONST, FLOAT32, s18=0)
    data = made([X, big, Y], [node("Add", [0, 1], [2])], [2], blobs=[bytes(64)])
    with limits(20, 16 << 20), pytest.raises(ModelInvalid, match="1024, 1024, 1024"):
        open_cpu(data)


def test_one_hot_of_two_thousand_million() -> None:
    index = tensor("x", (1, 3), INPUT, 7)
    depth, values = tensor("d", (1,), CONST, 7, s18=0), tensor("v", (2,), CONST, FLOAT32, s18=1)
    data = made(
        [index, depth, values, tensor("y", (1, 3, 4), OUTPUT)], [node("OneHot", [0, 1, 2], [3])], [3],
        blobs=[struct.pack("<q", 1 << 31), struct.pack("<ff", 0, 1)],
    )  # fmt: skip
    with limits(20, 16 << 20), pytest.raises(ModelInvalid, match="depth 2147483648, but its output is"):
        open_cpu(data).infer(np.zeros((1, 3), np.int64))


def test_goldens_are_where_the_tests_look() -> None:
    assert goldens(genuine("conv_1x1.rk3588.i8").with_suffix(".npz"))[0].outputs


def test_layout_flag_and_unused_slots_do_not_matter() -> None:
    plain = tensor("x", (1, 3, 4, 4), INPUT, s1=I8(1), s6=b"layer", s8=f32s(0.0), s13=i32s(1))
    found = ModelFile(made([plain, Y], [node("Relu", [0], [1])], [1])).model
    assert found.inputs[0].shape == (1, 3, 4, 4)


def test_whatever_goes_wrong_while_a_graph_is_read_is_a_damaged_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """The net below all checks: no other exception reaches the caller, and the cause is kept."""
    from rknnlite_graph.reading import builder

    def slip(self: object) -> None:
        raise IndexError("tuple index out of range")

    monkeypatch.setattr(builder._Builder, "build", slip)
    with pytest.raises(
        ModelInvalid, match=r"model in memory: damaged file: .* \(IndexError: tuple"
    ) as caught:
        open_cpu(one_node())
    assert caught.value.__cause__ is None or isinstance(caught.value.__cause__, IndexError)
