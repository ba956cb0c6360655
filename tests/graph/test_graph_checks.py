"""Graphs whose parts do not fit each other are refused at load, with the name of the node or tensor."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from rknnlite_graph.graph import ConvParams, Node, Tensor, TensorRole
from rknnlite_graph.read import read_graph
from rknnlite_graph.reading.graph_checks import check_convolution
from rknnlite_graph.reading.npu_families import family_of
from rknnlite_graph.reading.register_map import SMALL_CONSTANTS

from rknnlite.errors import ModelInvalid
from rknnlite.formats import ModelFile
from rknnlite.tensor import DType
from tests.support.corpus import genuine, open_cpu
from tests.support.flat import build, f32s, i32s
from tests.support.handmade import (
    ACTIVATION,
    CONST,
    INPUT,
    INT8,
    OUTPUT,
    container,
    graph,
    node,
    root,
    tensor,
)

SHAPE = (1, 3, 4, 4)
X, Y = tensor("x", SHAPE, INPUT), tensor("y", SHAPE, OUTPUT)
IN, OUT = node("InputOperator", [], [0]), node("OutputOperator", [1], [])


def model(tensors, nodes, blobs=None):
    """A file with input 0 and output 1."""
    return container(build(root([graph(tensors, nodes, [0], [1])], blobs=blobs)))


def refused(data, text):
    with pytest.raises(ModelInvalid, match=text):
        open_cpu(data)


def test_the_graphs_here_are_good_without_their_flaw():
    inner = tensor("inner", SHAPE)
    open_cpu(model([X, Y, inner], [IN, node("Relu", [0], [2]), node("Sigmoid", [2], [1]), OUT])).close()


def test_a_node_that_reads_a_later_result():
    inner, other = tensor("inner", SHAPE), tensor("other", SHAPE)
    nodes = [
        IN,
        node("Add", [0, 3], [2], "first"),
        node("Relu", [2], [3], "second"),
        node("Relu", [3], [1]),
        OUT,
    ]
    refused(
        model([X, Y, inner, other], nodes), 'node Add "first" reads tensor other before it is written.*cycle'
    )


def test_a_node_that_feeds_itself():
    refused(model([X, Y], [IN, node("Add", [0, 1], [1], "loop"), OUT]), '"loop" reads tensor y before')


def test_two_nodes_that_write_one_tensor():
    refused(
        model([X, Y], [IN, node("Relu", [0], [1]), node("Relu", [0], [1], "again"), OUT]),
        '"again" writes a tensor',
    )


def test_an_operand_that_nobody_writes():
    ghost = tensor("ghost", SHAPE, ACTIVATION)
    refused(
        model([X, Y, ghost], [IN, node("Relu", [2], [1], "lonely"), OUT]),
        '"lonely": its operand 0, tensor ghost',
    )
    refused(model([X, Y, ghost], [IN, node("Where", [0, 2, 0], [1]), OUT]), "operand 1, tensor ghost")


def test_a_sum_of_one():
    scratch = tensor("scratch", SHAPE, ACTIVATION)
    refused(
        model([X, Y, scratch], [IN, node("Add", [0, 2], [1], "half"), OUT]),
        'Add "half": operand 1 is missing',
    )


def test_a_node_without_result():
    refused(
        model([X, Y], [IN, node("Relu", [0], [], "mute"), node("Relu", [0], [1]), OUT]),
        '"mute" has no outputs',
    )


def test_operands_of_wrong_rank_and_shape():
    flat = tensor("x", (1, 48), INPUT)
    refused(model([flat, Y], [IN, node("MaxPool", [0], [1]), OUT]), "MaxPool")
    refused(
        model([flat, Y], [IN, node("exSDPAttention", [0, 0, 0], [1]), OUT]),
        r"\[1, 48\].*result \[1, 3, 4, 4\] \(y\)",
    )
    other = tensor("other", (5,), CONST, s18=0)
    refused(model([X, Y, other], [IN, node("Add", [0, 2], [1]), OUT], [bytes(16)]), r"\[1, 3, 4, 4\], \[5\]")


@pytest.mark.parametrize("shape", [(1 << 20, 1 << 20, 4, 4), (1, -3, 4, 4), (1,) * 40])
def test_absurd_sizes(shape):
    refused(model([tensor("huge", shape, INPUT), Y], [IN, node("Relu", [0], [1]), OUT]), "huge")


def test_a_constant_larger_than_its_blob():
    weights = tensor("table", SHAPE, CONST, s18=0)
    nodes = [IN, node("Add", [0, 2], [1]), OUT]
    refused(model([X, Y, weights], nodes, [bytes(64)]), r"table: shape \[1, 3, 4, 4\], but 32 elements")


def test_a_blob_number_that_does_not_exist():
    weights = tensor("table", SHAPE, CONST, s18=7)
    refused(
        model([X, Y, weights], [IN, node("Add", [0, 2], [1]), OUT], [bytes(96)]),
        "table: blob 7 does not exist",
    )


def test_blobs_that_overlap():
    data = bytearray(model([X, Y], [IN, node("Relu", [0], [1]), OUT], [b"A" * 64, b"B" * 64]))
    open_cpu(bytes(data)).close()
    struct.pack_into("<I", data, data.index(b"A" * 64) - 4, 100)
    refused(bytes(data), "lies inside the one")


@pytest.mark.parametrize(
    "quant, text",
    [
        ({10: f32s(0.5), 11: i32s(300)}, "x has zero point 300"),
        ({10: f32s(0.0), 11: i32s(0)}, "x has the impossible scale"),
        ({10: f32s(float("nan")), 11: i32s(0)}, "x has the impossible scale"),
        ({10: f32s(0.5), 11: i32s(0, 1)}, "x has 1 scales and 2 zero points"),
    ],
)
def test_contradictory_quantisation(quant, text):
    source = {**tensor("x", SHAPE, INPUT, INT8), **quant}
    refused(model([source, Y], [IN, node("Relu", [0], [1]), OUT]), text)


# -- registers -----------------------------------------------------------------------------------------------


def with_register(data, register, change):
    """A file with every write of one register changed."""
    words = 0
    for at in range(len(data) - 8):
        (word,) = struct.unpack_from("<Q", data, at)
        if word & 0xFFFF == register and word >> 48 in (0x0201, 0x1001):
            struct.pack_into(
                "<Q", data, at, word & ~(0xFFFFFFFF << 16) | change(word >> 16 & 0xFFFFFFFF) << 16
            )
            words += 1
    assert words, "the file does not set this register"
    return bytes(data)


KERNELS = [("conv_relu.rk3588.i8", 0x1038), ("conv_relu.rk3562.i8", 0x1024), ("conv_relu.rv1126b.i8", 0x1024)]


@pytest.mark.parametrize("name, register", KERNELS)
def test_registers_of_another_kernel(name, register):
    data = bytearray(genuine(name).read_bytes())
    with pytest.raises(ModelInvalid, match="its registers are for a kernel of 3x2"):
        read_graph(ModelFile(with_register(data, register, lambda value: value - (1 << 24))).model)


def test_registers_of_another_output():
    data = bytearray(genuine("conv_relu.rk3588.i8").read_bytes())
    with pytest.raises(ModelInvalid, match="registers give zero point -127, its output"):
        read_graph(ModelFile(with_register(data, 0x4080, lambda value: value + 1)).model)


def test_registers_that_scale_to_nothing():
    data = bytearray(genuine("conv_relu.rk3588.i8").read_bytes())
    with pytest.raises(ModelInvalid, match="give the output scale 0"):
        read_graph(ModelFile(with_register(data, 0x4084, lambda value: 0)).model)


@pytest.mark.parametrize(
    ("kernel", "width", "fits"), [((2, 1), 1, True), ((1, 2), 1, True), ((1, 2), 4, False)]
)
def test_a_column_may_be_computed_as_a_row(kernel, width, fits):
    """rk3566 and rk3568 turn a kernel of one column around when the picture has only one."""
    conv = ConvParams(
        lambda: np.zeros((8, 8, 2, 1)), (8, 8, 2, 1), False, False, False, (1, 1), (1, 1), (0, 0)
    )
    y = Tensor(1, "y", DType.FLOAT16, (1, 8, 1, width), TensorRole.ACTIVATION)
    registers = {0x1038: kernel[0] << 16 | kernel[1] << 24}
    the_node = Node(0, "Conv", "pool", [0], [1])
    if fits:
        check_convolution(the_node, conv, y, family_of("RKNPU v2"), registers)
    else:
        with pytest.raises(ModelInvalid, match="kernel of 1x2, its weight is 2x1"):
            check_convolution(the_node, conv, y, family_of("RKNPU v2"), registers)


# -- shapes and inputs ---------------------------------------------------------------------------------------

INDEX = tensor("index", (2, 2), CONST, 7, s18=0)


@pytest.mark.parametrize(
    ("operator", "result", "more"),
    [
        ("Relu", (1, 3, 4, 5), []),
        ("Transpose", (1, 3, 4, 5), []),
        ("ReduceMax", (1, 3, 1, 4), []),
        ("ArgMax", (1, 2, 4, 4), []),
        ("MaxPool", (1, 2, 4, 4), []),
        ("AveragePool", (2, 3, 4, 4), []),
        ("GlobalAveragePool", (1, 4, 1, 1), []),
        ("Gather", (2, 2, 3, 4, 5), [INDEX]),
        ("GridSample", (1, 3, 5, 5), [tensor("grid", (1, 5, 5, 3), CONST, s18=0)]),
        ("Concat", (1, 3, 4, 9), [tensor("other", (1, 3, 4, 4), CONST, s18=0)]),
        ("exConvTransposePad", (1, 3, 3, 9), []),
        ("MatMul", (1, 3, 4, 5), [tensor("b", (1, 3, 4, 4), CONST, s18=0)]),
        ("MatMul", (1, 3, 4, 2), [tensor("b", (1, 3, 3, 2), CONST, s18=0)]),
        ("MatMul", (1, 3, 4, 2), [tensor("b", (2, 2, 4, 2), CONST, s18=0)]),
        ("Gemm", (1, 3, 4, 5), [tensor("b", (5, 4), CONST, s18=0)]),
        (
            "Where",
            (1, 3, 4, 4),
            [tensor("a", (1, 3, 4, 4), CONST, s18=0), tensor("b", (1, 3, 5, 4), CONST, s18=0)],
        ),
        ("Where", (1, 3, 4, 4), [tensor("a", (1, 3, 4, 4), CONST, s18=0)]),
        ("GatherND", (1, 3, 4, 4), [INDEX]),
        ("GatherND", (2, 1), [tensor("index", (2, 5), CONST, s18=0)]),
        ("GatherElements", (1, 3, 2, 4), [tensor("index", (1, 4, 4, 2), CONST, s18=0)]),
        ("DepthToSpace", (1, 3, 4, 5), []),
        ("SpaceToDepth", (1, 3, 4, 5), []),
        ("Mean", (1, 3, 4, 4), [tensor("other", (1, 2, 4, 4), CONST, s18=0)]),
    ],
)
def test_results_that_no_operator_gives(operator, result, more):
    """Found by damaging files: these reached the first inference."""
    operands = [0, *range(2, 2 + len(more))]
    data = model(
        [X, tensor("y", result, OUTPUT), *more],
        [IN, node(operator, operands, [1], "odd"), OUT],
        [bytes(1024)],
    )
    with pytest.raises(
        ModelInvalid,
        match=f'node {operator} "odd":? (operands of shape .* do not give|gives shape .*file says)',
    ):
        read_graph(ModelFile(data).model)


def test_an_input_that_is_a_constant():
    stored = tensor("x", SHAPE, CONST, s18=0)
    data = model([stored, Y], [IN, node("Relu", [0], [1]), OUT], [bytes(96)])
    with pytest.raises(ModelInvalid, match="input x is stored in the file as a constant"):
        read_graph(ModelFile(data).model)


def test_a_fetched_tensor_that_is_no_input():
    other = tensor("other", SHAPE, INPUT)
    nodes = [IN, node("InputOperator", [], [2]), node("Add", [0, 2], [1]), OUT]
    with pytest.raises(ModelInvalid, match="fetches tensor other, which is no input of the graph"):
        read_graph(ModelFile(model([X, Y, other], nodes)).model)


@pytest.mark.filterwarnings("error")
def test_steps_of_a_damaged_file_give_no_warning():
    from rknnlite_graph.reading.recurrent_weights import _stepped

    rows = Tensor(
        0, "w", DType.FLOAT32, (1, 2), TensorRole.CONST, load=lambda: np.array([[3e38, -1]], np.float32)
    )
    found = _stepped(rows, np.array([1e-40], np.float32), np.zeros(1), DType.INT8)
    assert np.isfinite(found).all()


def test_a_layer_without_register_commands():
    """Constants beside the node are no commands; the converter writes none for what the NPU cannot compute."""
    model = ModelFile(genuine("conv_relu.rv1126b.i8")).model
    (node,) = [node for node in read_graph(model).nodes if node.conv is not None]
    y, family = read_graph(model).tensors[node.outputs[0]], family_of(model.family)
    for registers in ({}, dict.fromkeys(SMALL_CONSTANTS.values(), 1)):
        with pytest.raises(ModelInvalid, match=r"no register commands; .*smaller"):
            check_convolution(node, node.conv, y, family, registers)


def test_a_sum_whose_scale_may_be_cut():
    """rv1103b has one scale for both operands; at its end the converter writes a convolution that is too large."""
    data = genuine("mobilenetv2_like.rv1103b.i8").read_bytes()
    assert read_graph(ModelFile(data).model).guesses == []
    for register, change in ((0x4090, lambda v: v & 0xFFFF | 29 << 16), (0x404C, lambda v: v & ~0xF00000)):
        data = with_register(bytearray(data), register, change)
    facts = [guess.fact for guess in read_graph(ModelFile(data).model).guesses]
    assert any("2, 4 or 8 times too large" in fact for fact in facts)


def test_results_that_nobody_reads_have_names_of_their_own():
    """The file leaves out the first part of a Split whose second one is called as the node's results are."""
    parts = [tensor("x", (2, 3, 4, 4), INPUT), Y]
    data = container(build(root([graph(parts, [IN, node("Split", [0], [-1, 1]), OUT], [0], [1])])))
    made = read_graph(ModelFile(data).model)
    (split,) = [each for each in made.nodes if each.op == "Split"]
    assert [made.tensors[i].name for i in split.outputs] == ["y:0", "y"]
