"""Every operator of the CPU reference as a graph of one node: lowered, in reals and on 8-bit integers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from rknnlite_graph.graph import Graph, RecurrentParams
from rknnlite_graph.lowering import Form, NotLowered
from rknnlite_graph.operators import OPERATORS, Shape

from rknnlite.tensor import DType, QuantParams
from tests.cpu.test_ops_onnx import ALL, Case, by_onnxruntime, image, real, whole
from tests.support.graphs import constant, one_node, tensor
from tests.support.lowered import judged, judged_alone, run

EXACT_FORMS = (Form.EXACT, Form.EXACT_INT8)
ZERO_POINT = 5


def steps_for(array: np.ndarray) -> QuantParams:
    """Steps that cover an array, with a zero point off the middle."""
    high = float(np.abs(array[np.isfinite(array)]).max(initial=0)) or 1.0
    return QuantParams(round(high / 100, 6) or 1e-6, ZERO_POINT)


def graph_of(case: Case, quantised: bool) -> tuple[Graph, dict[int, np.ndarray]]:
    """The graph, and values of its inputs as a plan carries them."""
    expected = by_onnxruntime(case)
    live, feeds, results = [], [], []
    for i, array in enumerate(case.arrays):
        integer = quantised and array.dtype == np.float32
        quant = steps_for(array) if integer else None
        live.append(
            tensor(f"x{i}", array.shape, DType.INT8 if integer else DType.from_numpy(array.dtype), quant)
        )
        if quant is not None:
            array = np.clip(
                np.rint(np.nan_to_num(array) / quant.scale), -128 - ZERO_POINT, 127 - ZERO_POINT
            ).astype(np.float32)
        feeds.append(array)
    for i, array in enumerate(expected):
        integer = quantised and array.dtype == np.float32
        dtype = DType.INT8 if integer else DType.from_numpy(array.dtype)
        results.append(tensor(f"y{i}", array.shape, dtype, steps_for(array) if integer else None))
    fixed = [None if c is None else constant(c) for c in case.constants]
    graph = one_node(case.op, [*live, *fixed], results, dict(case.attrs)).graph
    return graph, dict(zip(graph.inputs, feeds))


def check(graph: Graph, feeds: dict[int, np.ndarray], form: Form, tolerance: float = 2e-5) -> None:
    for verdict in judged(graph, form, feeds):
        if verdict.tensor.quant is not None:
            assert verdict.worst <= 1 and verdict.different <= 2, str(verdict)
        elif verdict.tensor.dtype.is_float:
            assert not verdict.reason and verdict.worst <= tolerance, str(verdict)
        else:
            assert not verdict.different, str(verdict)


SMALL = real(2, 3, 4)
RARE = [
    Case("Mod", [whole(-7, 7, -7, 7), whole(3, -3, -3, 3)]),
    Case("Mod", [SMALL, real(2, 3, 4)], attrs={"fmod": 1}),
    Case("IsInf", [np.array([1, np.nan, -np.inf, np.inf], np.float32)]),
    Case("IsInf", [np.array([1, np.nan, -np.inf, np.inf], np.float32)], attrs={"detect_negative": 0}),
    Case("EyeLike", [real(3, 5)], attrs={"k": 1, "dtype": 1}),
    Case("Compress", [SMALL], [np.array([True, False, True])], {"axis": 1}),
    Case("Einsum", [real(2, 3, 4), real(2, 4, 5)], attrs={"equation": "bij,bjk->bik"}),
    Case("Einsum", [real(2, 3, 4)], attrs={"equation": "b...c->c...b"}),
    Case("DFT", [real(1, 6, 1)], attrs={"axis": 1}),
    Case("DFT", [real(1, 6, 2)], attrs={"axis": 1, "inverse": 1}),
    Case("DFT", [real(1, 6, 1)], attrs={"axis": 1, "onesided": 1}),
    Case("Det", [real(2, 3, 3)]),
    Case("ReverseSequence", [real(4, 3, 2)], [whole(1, 4, 2)], {"time_axis": 0, "batch_axis": 1}),
    Case("OneHot", [whole(0, 2, -1)], [whole(3), np.array([-1, 5], np.float32)], {"axis": 0}),
    Case("GatherND", [real(2, 3, 4)], [np.array([[[1]], [[0]]])], {"batch_dims": 1}),
    Case("ScatterND", [real(4, 2)], [np.array([[1], [3], [1]]), real(3, 2)], {"reduction": "add"}),
    Case("ScatterElements", [real(3, 3)], [np.array([[1, 0, 2], [0, 2, 1]]), real(2, 3)], {"axis": 0}),
    Case("QuantizeLinear", [image], [np.float32(0.05), np.uint8(100)]),
    Case("DequantizeLinear", [np.arange(-6, 6, dtype=np.int8).reshape(3, 4)], [np.float32(0.1), np.int8(2)]),
    Case("TopK", [real(3, 9)], [whole(4)], {"axis": 1, "largest": 0}, outputs=2),
    Case("ArgMax", [np.array([[1, 3, 3, 0]], np.float32)], attrs={"axis": 1, "select_last_index": 1}),
    Case("Where", [np.array([[True], [False]]), real(2, 3), real(1, 3)]),
    Case("Xor", [np.array([True, False]), np.array([True, True])]),
    Case("MaxUnpool", [real(1, 1, 2, 2)], [np.array([[[[0, 3], [9, 15]]]]), whole(1, 1, 4, 4)],
         {"kernel_shape": [2, 2], "strides": [2, 2]}),
    Case("MaxRoiPool", [image, np.array([[0, 1, 1, 5, 6], [0, 0, 2, 8, 3]], np.float32)],
         attrs={"pooled_shape": [2, 3]}),
    Case("RoiAlign", [image, np.array([[1, 1, 5.5, 6], [0, 2, 8, 3]], np.float32)], [whole(0, 0)],
         {"output_height": 2, "output_width": 3, "sampling_ratio": 2, "coordinate_transformation_mode": "half_pixel"}),
    Case("AveragePool", [real(1, 3, 9, 9)], attrs={"kernel_shape": [2, 2], "dilations": [2, 3]}, opset=19),
    Case("AveragePool", [real(1, 3, 7, 7)], attrs={"kernel_shape": [2, 3], "strides": [3, 2], "pads": [1, 0, 0, 1],
                                                   "count_include_pad": 1, "ceil_mode": 1}),
    Case("RNN", [real(4, 2, 3)], [real(2, 5, 3), real(2, 5, 5), real(2, 10)],
         {"direction": "bidirectional", "hidden_size": 5}, outputs=2),
]  # fmt: skip
CASES = [*ALL, *RARE]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_in_reals(case: Case) -> None:
    check(*graph_of(case, quantised=False), Form.FLOAT)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_on_integers(case: Case) -> None:
    check(*graph_of(case, quantised=True), Form.EXACT)


@pytest.mark.parametrize("case", [*ALL[::3], *RARE], ids=str)
def test_on_bytes(case: Case) -> None:
    check(*graph_of(case, quantised=True), Form.EXACT_INT8)


# -- what ONNX has no operator for ---------------------------------------------------------------------------


def made(
    op: str, arrays: list[np.ndarray], shape: tuple[int, ...], attrs: dict[str, Any], fixed: list[Any]
) -> tuple[Graph, dict[int, np.ndarray]]:
    live = [tensor(f"x{i}", a.shape, DType.from_numpy(a.dtype)) for i, a in enumerate(arrays)]
    operands = [*live, *(constant(c) for c in fixed)]
    graph = one_node("cstAnything", operands, [tensor("y", shape)]).graph  # nobody says what its shapes are
    graph = replace(graph, nodes=[replace(graph.nodes[0], op=op, attrs=attrs)])
    return graph, dict(zip(graph.inputs, arrays))


COMPOSED = [
    ("exGlu", [real(2, 6, 3)], (2, 3, 3), {}, []),
    ("exMatMul", [real(2, 6, 1, 3), real(2, 6, 1, 5), real(1, 3, 1, 5)], (2, 3, 1, 5), {"c_type": "add"}, []),
    ("exSDPAttention", [real(4, 8, 1, 5), real(4, 8, 1, 7), real(4, 8, 1, 7)], (4, 8, 1, 5), {"scale": 0.3}, []),
    *(("exNorm", [real(2, 6, 3)], (2, 6, 3), {"mode": mode, "axes": [1]}, [real(6), real(6)])
      for mode in ("layer", "rms", "l1", "l2", "pixel")),
    ("GroupNormalization", [real(2, 6, 3)], (2, 6, 3), {"num_groups": 2}, [real(2), real(2)]),
    ("Mod", [real(3, 4), real(3, 4)], (3, 4), {}, []),
    ("CenterCropPad", [real(5, 4)], (2, 7), {}, []),
    ("Col2Im", [real(1, 12, 6)], (1, 2, 4, 5), {"strides": [1, 2], "pads": [0, 1, 0, 0]}, [whole(4, 5), whole(2, 3)]),
    ("exConvTransposePad", [real(1, 2, 3, 4)], (1, 2, 11, 14), {"strides": [3, 3], "kernel_shape": [3, 3]}, []),
    ("LRN", [real(2, 7, 3)], (2, 7, 3), {"size": 3}, []),
    ("ReduceLogSumExp", [real(2, 7, 3)], (2, 1, 3), {"axes": [1]}, []),
]  # fmt: skip


@pytest.mark.parametrize("case", COMPOSED, ids=lambda case: f"{case[0]}{case[3]}".replace(" ", ""))
def test_composed(case: Any) -> None:
    check(*made(*case), Form.FLOAT)


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize(
    ("op", "gates", "directions"), [("LSTM", 4, 1), ("LSTM", 4, 2), ("GRU", 3, 1), ("GRU", 3, 2)]
)
def test_recurrent(op: str, gates: int, directions: int, reset: bool) -> None:
    """Lengths, initial states for more rows than there are, backwards, all results."""
    hidden, steps, batch = 5, 4, 2
    params = RecurrentParams(
        gates, hidden, directions, real(directions, gates, hidden, 3), real(directions, gates, hidden, hidden),
        real(directions, gates, hidden), real(directions, gates, hidden), reset and directions == 1,
        linear_before_reset=reset,
    )  # fmt: skip
    states = [tensor(f"s{i}", (directions, 3, hidden)) for i in range(gates - 2)]
    x, lengths = tensor("x", (steps, batch, 3)), tensor("lengths", (batch,), DType.INT32)
    shapes = [(steps, batch, directions * hidden), *[(directions, batch, hidden)] * (gates - 2)]
    results = [tensor(f"y{i}", shape) for i, shape in enumerate(shapes)]
    graph = one_node(op, [x, lengths, *states], results, recurrent=params).graph
    given = [real(steps, batch, 3), np.array([4, 2], np.int32), *(real(*state.shape) for state in states)]
    check(graph, dict(zip(graph.inputs, given)), Form.FLOAT)


# -- how results are stored ------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", EXACT_FORMS, ids=lambda form: form.value)
@pytest.mark.parametrize("op", ["Log", "Sqrt", "Acosh"])
def test_what_is_not_defined_is_stored_as_0(op: str, form: Form) -> None:
    x = tensor("x", (1, 256), DType.INT8, QuantParams(0.1, 3))
    y = tensor("y", (1, 256), DType.INT8, QuantParams(0.2, -7))
    graph = one_node(op, [x], [y]).graph
    feeds = {0: np.arange(-131, 125, dtype=np.float32).reshape(1, 256)}
    found = run(graph, graph.nodes, feeds, [1], form)[0]
    assert set(found[0, :100]) == {7.0}, "a NaN is the element 0, centred 7"
    check(graph, feeds, form)


@pytest.mark.parametrize("kind", [DType.INT8, DType.UINT8, DType.INT32], ids=lambda kind: kind.short)
def test_integers_are_cut_off_and_saturate(kind: DType) -> None:
    values = np.array([[1.9, -1.9, 1e30, -1e30, np.nan, 300, -0.5, np.inf]], np.float32)
    graph = one_node("Cast", [tensor("x", (1, 8))], [tensor("y", (1, 8), kind)], {"to": 1}).graph
    check(graph, {0: values}, Form.FLOAT)


@pytest.mark.parametrize("form", EXACT_FORMS, ids=lambda form: form.value)
def test_a_comparison_in_quantised_elements(form: Form) -> None:
    operands = [tensor(f"x{i}", (2, 5), DType.INT8, QuantParams(0.1, i)) for i in range(2)]
    graph = one_node("Greater", operands, [tensor("y", (2, 5), DType.INT8, QuantParams(1 / 255, -128))]).graph
    rng = np.random.default_rng(0)
    check(graph, {i: rng.integers(-20, 20, (2, 5)).astype(np.float32) for i in range(2)}, form)


@pytest.mark.parametrize("form", EXACT_FORMS, ids=lambda form: form.value)
def test_a_constant_among_what_is_joined(form: Form) -> None:
    x = tensor("x", (2, 3), DType.INT8, QuantParams(0.1, -3))
    fixed = constant(real(2, 4, low=-9, high=9))
    graph = one_node("Concat", [x, fixed], [tensor("y", (2, 7), DType.INT8, x.quant)], {"axis": 1}).graph
    check(graph, {0: np.arange(6, dtype=np.float32).reshape(2, 3)}, form, 0)


def test_a_slope_of_more_dimensions_than_its_values() -> None:
    operands = [tensor("x", (1, 32)), constant(np.full((1, 1, 1), 0.3, np.float32))]
    graph = one_node("PRelu", operands, [tensor("y", (1, 1, 32))]).graph
    check(graph, {0: real(1, 32)}, Form.EXACT)


def test_bfloat16_is_rounded() -> None:
    graph, feeds = made("Relu", [np.abs(real(1, 64))], (1, 64), {}, [])
    graph.tensors[graph.outputs[0]].dtype = DType.BFLOAT16
    check(graph, feeds, Form.EXACT, 0)


# -- what cannot be lowered --------------------------------------------------------------------------------------

REFUSED = [
    ("ScatterND", [real(4, 2)], (4, 2), {"reduction": "max"}, [np.array([[1]]), real(1, 2)], "operator set 18"),
    ("exNorm", [real(2, 3)], (2, 3), {"mode": "l7"}, [], "mode 'l7'"),
    ("exMatMul", [real(2, 6, 2, 3), real(2, 6, 2, 5)], (2, 3, 1, 5), {}, [], "of shape"),
    ("ReverseSequence", [real(2, 3, 4), whole(1, 2, 3)], (2, 3, 4), {"time_axis": 2}, [], "time axis 2"),
    ("LSTM", [real(4, 2, 3)], (4, 2, 5), {}, [], "no decoded weights"),
    ("cstBlur", [real(4, 2)], (4, 2), {}, [], "nobody writes it"),
]  # fmt: skip


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case[0])
def test_refused(case: Any) -> None:
    graph, feeds = made(*case[:5])
    with pytest.raises(NotLowered, match=case[5]):
        run(graph, graph.nodes, feeds, graph.outputs, Form.EXACT)


def test_functions_that_are_not_written_out_are_those_of_onnx() -> None:
    """By name, operands and parameters."""
    from onnx import defs
    from rknnlite_onnx.functions import _WRITTEN

    by_hand = {"Cast", "Clip", "exDataConvert"}
    for row in OPERATORS:
        if row.shape is Shape.UNARY and row.name not in _WRITTEN and row.name not in by_hand:
            schema = defs.get_schema(row.names[-1], 17)
            assert len(schema.inputs) == 1 and {each.name for each in row.parameters} <= set(
                schema.attributes
            ), row


def test_the_other_gelu_is_not_lowered() -> None:
    """The CPU reference does not compute it either."""
    graph, feeds = made("Gelu", [SMALL], SMALL.shape, {"approximate": "tanh"}, [])
    (verdict,) = judged_alone(graph, graph.nodes[0], feeds, {1: SMALL}, Form.FLOAT)
    assert verdict.reason == "not lowered: approximate 'tanh'"
