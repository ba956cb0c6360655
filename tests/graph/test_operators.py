"""The table of operators: one row for each that is computed, written as ONNX or read from a file, and none beside."""

from __future__ import annotations

import importlib
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from rknnlite_cpu import ops, registry
from rknnlite_cpu.engines import proof, prover
from rknnlite_graph.graph import RECURRENT_GATES, Graph, Lut, Node, Stage, Tensor, TensorRole
from rknnlite_graph.node_view import NodeView
from rknnlite_graph.operators import (
    OPERATORS,
    TABLE_FUNCTIONS,
    Kept,
    LeftOut,
    Shape,
    convolution_types,
    operator_of,
)
from rknnlite_graph.reading import graph_checks, unverified_facts
from rknnlite_graph.reading.attributes import LEFT_OUT
from rknnlite_graph.reading.graph_checks import check_shapes
from rknnlite_graph.rknn1 import graph as rknn1
from rknnlite_graph.unary_functions import FUNCTIONS

from rknnlite.errors import ModelInvalid
from rknnlite.tensor import DType, QuantParams
from tests.support.lowered import INEXACT

NAMES = {name for row in OPERATORS for name in row.names}
FUSED = set(convolution_types())
STEPS = QuantParams(0.05, 3)


def builders() -> set[str]:
    ops.load_rare()
    return set(registry._BUILDERS)


def writers() -> set[str]:
    pytest.importorskip("onnx")
    from rknnlite_onnx import ops as written
    from rknnlite_onnx import registry as lowerings

    written.writer_for("nobody's")
    return set(lowerings._WRITERS)


def of_first_generation() -> set[str]:
    for room in rknn1._ROOMS:
        importlib.import_module(f"{rknn1.__package__}.{room}")
    return set(rknn1._LOWERINGS)


def node_of(op: str, attrs: dict[str, Any] | None = None, stage: Stage | None = None) -> Node:
    return Node(0, op, "n", [0], [1], attrs=attrs or {}, stage=stage)


def view_of(node: Node, quant: QuantParams | None = None) -> NodeView:
    x = Tensor(0, "x", DType.INT8 if quant else DType.FLOAT32, (1, 2), TensorRole.INPUT, quant)
    return NodeView(Graph([x, replace(x, index=1, name="y")], [node], [0], [1]), node)


def table(**changed: Any) -> Lut:
    points = np.zeros(513)
    return Lut(**{"low": points, "high": points, "multiplier": 1.0, "offset": 0.0, **changed})


# -- whom it lists ---------------------------------------------------------------------------------------------


def test_whatever_the_reference_computes_has_a_row() -> None:
    assert not builders() - FUSED - NAMES
    assert not NAMES - builders(), "rows of operators that nobody computes"


def test_whatever_is_written_as_onnx_has_a_row() -> None:
    assert not writers() - FUSED - NAMES
    assert not NAMES - writers(), "rows of operators that nobody writes"


def test_whatever_files_of_the_first_generation_have_stands_in_a_row() -> None:
    assert {name for row in OPERATORS for name in row.rknn1} == of_first_generation()


def test_a_name_has_one_row() -> None:
    for column in ("names", "rknn1"):
        counts = Counter(name for row in OPERATORS for name in getattr(row, column))
        assert [name for name, count in counts.items() if count > 1] == []


def test_those_who_name_single_operators_name_known_ones() -> None:
    lists = {
        "functions": FUNCTIONS, "rules": graph_checks._RULES, "joins": graph_checks._JOINS, "gates": RECURRENT_GATES,
        "read by place": prover._CHECKED, "attributes left out": LEFT_OUT,
    }  # fmt: skip
    assert not {(what, name) for what, names in lists.items() for name in names if name not in NAMES}
    assert not unverified_facts._UNSEEN_CONVOLUTIONS - FUSED


def test_a_function_has_the_parameters_of_its_row() -> None:
    x = np.array([-3.0, -0.25, 0.25, 3.0], np.float32)
    for name, function in FUNCTIONS.items():
        row = operator_of(name)
        assert row is not None and row.name == name and row.shape is Shape.UNARY
        with np.errstate(invalid="ignore"):
            assert function(x, *(each.default for each in row.parameters)).shape == x.shape, name


# -- what it says ----------------------------------------------------------------------------------------------


def test_the_judge_of_lowerings_agrees() -> None:
    """It says for itself what is inexact: see there."""
    assert {name for row in OPERATORS if row.floating for name in row.names} == INEXACT


def test_an_engine_is_judged_by_it() -> None:
    assert proof.is_floating(node_of("Mish")) and proof.is_floating(node_of("exMish"))
    assert not proof.is_floating(node_of("HardSwish")) and not proof.is_floating(node_of("cstMine"))


def test_what_only_a_table_tells_is_a_function_by_table() -> None:
    for row in OPERATORS:
        if any(each.kept in (Kept.TABLE, Kept.LINE) for each in row.parameters):
            assert row in TABLE_FUNCTIONS.values(), row.name
    assert TABLE_FUNCTIONS["ExSwish"] is operator_of("exSwish")


def test_defaults_that_are_told_are_there() -> None:
    for row in OPERATORS:
        assert row.left_out is not LeftOut.DEFAULTS or row.parameters, row.name


@pytest.mark.parametrize(
    "op", ["Abs", "exMish", "Mish", "exGelu", "Gelu", "IsNaN", "IsInf", "ScatterElements", "Scatter"]
)
def test_names_of_one_operator_are_checked_alike(op: str) -> None:
    """Mish, Gelu, IsInf and Scatter were not."""
    tensors = [
        Tensor(i, "t", DType.FLOAT32, shape, TensorRole.ACTIVATION)
        for i, shape in enumerate([(2, 3), (2, 4)])
    ]
    with pytest.raises(ModelInvalid, match=r"gives shape \[2, 3\], the file says \[2, 4\]"):
        check_shapes(node_of(op), tensors[:1], tensors[1:])


def test_scatter_needs_its_axis_by_either_name() -> None:
    for name in ("Scatter", "ScatterElements"):
        row = operator_of(name)
        assert row is not None and row.left_out is LeftOut.REFUSED


# -- parameters ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "attrs", "stage", "expected"),
    [
        ("LeakyRelu", {}, None, {"alpha": 0.01}),
        ("LeakyRelu", {}, Stage(slope=0.25), {"alpha": 0.25}),
        ("LeakyRelu", {"alpha": 0.5}, Stage(slope=0.25), {"alpha": 0.5}),
        ("LeakyRelu", {"alpha": None}, Stage(slope=0.25), {"alpha": 0.25}),
        ("Elu", {}, Stage(), {"alpha": 1.0}),
        ("Elu", {"alpha": 0.5}, Stage(lut=table()), {"alpha": 0.5}),
        ("Selu", {"alpha": 1.5}, None, {"alpha": 1.5, "gamma": 1.0507009873554805}),
        ("HardSigmoid", {}, None, {"alpha": 0.2, "beta": 0.5}),
        ("HardSigmoid", {}, Stage(lut=table(multiplier=0.25 * 32768 * STEPS.scale, offset=-3 * 0.25 * 32768 * STEPS.scale)),
         {"alpha": 0.25, "beta": 0.5}),
        ("HardSigmoid", {"alpha": 0.1}, Stage(lut=table()), {"alpha": 0.1, "beta": 0.5}),
        ("exSwish", {"beta": 1.702}, None, {"beta": 1.702}),
        ("Softmax", {}, None, {"axis": -1}),
        ("cstMine", {"alpha": 1}, None, {}),
    ],
)  # fmt: skip
def test_where_a_parameter_comes_from(
    op: str, attrs: dict[str, Any], stage: Stage | None, expected: dict[str, Any]
) -> None:
    found = view_of(node_of(op, attrs, stage), STEPS).parameters
    assert found == pytest.approx(expected) and list(found) == list(expected)


def test_alpha_is_read_off_the_table() -> None:
    x = (32 * np.arange(513) - 16384) / 3276.80
    lut = table(high=np.trunc(32768 * 0.8825 * np.exp(x) - 32768))
    assert view_of(node_of("Elu", stage=Stage(lut=lut)), STEPS).parameters == {"alpha": 0.8825}
    assert TABLE_FUNCTIONS["Elu"].table_parameters(Stage(lut=lut)) == (0.8825,)
    assert TABLE_FUNCTIONS["Elu"].table_parameters(Stage(parameters=(0.7,))) == (0.7,)
    assert TABLE_FUNCTIONS["Sigmoid"].table_parameters(Stage(lut=lut)) == ()


def test_a_parameter_that_is_no_number_is_refused() -> None:
    with pytest.raises(ModelInvalid, match="alpha must be a number, not 'much'"):
        view_of(node_of("Elu", {"alpha": "much"})).parameters  # noqa: B018
