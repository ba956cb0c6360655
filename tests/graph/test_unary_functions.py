"""Functions by sums, products and quotients: near to the real ones, and the same in onnxruntime, in one operator or in many."""

from __future__ import annotations

import math

import numpy as np
import pytest
from rknnlite_graph.byte_tables import exponentials, function_table, gate
from rknnlite_graph.node_view import NodeView
from rknnlite_graph.read import read_graph
from rknnlite_graph.unary_functions import FUNCTIONS, RATIONAL_FUNCTIONS

from rknnlite.formats import ModelFile
from tests.support.corpus import genuine

X = np.concatenate([np.linspace(-40, 40, 200_001), np.linspace(-0.01, 0.01, 2001)]).astype(np.float32)


@pytest.mark.parametrize("name", sorted(RATIONAL_FUNCTIONS))
def test_near_to_the_function_itself(name: str) -> None:
    real = FUNCTIONS[name](X.astype(np.float64))
    found = RATIONAL_FUNCTIONS[name](X)
    assert found.dtype == np.float32
    assert (np.abs(found - real) / np.maximum(1, np.abs(X))).max() < 4e-7


def test_parameters() -> None:
    x = X.astype(np.float64)
    for name, parameter, real in (
        ("exSwish", 1.702, x / (1 + np.exp(-1.702 * x))),
        ("Elu", 0.5, np.where(x > 0, x, 0.5 * np.expm1(np.minimum(x, 0)))),
    ):
        found = RATIONAL_FUNCTIONS[name](X, parameter)
        assert (np.abs(found - real) / np.maximum(1, np.abs(X))).max() < 4e-7


@pytest.mark.parametrize("form", ["exact", "exact-int8", "exact-own"])
@pytest.mark.parametrize(
    "name", ["act_silu", "act_sigmoid", "act_tanh", "act_gelu", "act_mish", "act_elu", "act_hardswish"]
)
def test_the_same_bytes_in_every_form(name: str, form: str) -> None:
    pytest.importorskip("onnxruntime")
    from rknnlite_graph.lowering import Form

    from tests.support.lowered import engine_of_tests, judged

    if form == "exact-own" and engine_of_tests().form is not Form.EXACT_OWN:
        pytest.skip("no compiler has built the operator of our own")
    graph = read_graph(ModelFile(genuine(f"{name}.rk3588.i8")).model)
    verdicts = list(judged(graph, Form(form)))
    assert verdicts
    for verdict in verdicts:
        assert verdict.precise and not verdict.reason and not verdict.different, str(verdict)


# -- tables ----------------------------------------------------------------------------------------------------


def test_sums_of_exponentials_are_exact_in_any_order() -> None:
    table = exponentials(0.0371)
    many = table[np.random.default_rng(0).integers(0, 256, 4096)].astype(np.float64)
    assert many.sum() == many[::-1].sum() == math.fsum(many)


def test_a_table_has_the_results_of_all_values() -> None:
    graph = read_graph(ModelFile(genuine("acts_alone.rk3588.i8")).model)
    tables = {
        node.op: function_table(NodeView(graph, node)) for node in graph.nodes if node.inputs and node.outputs
    }
    found = {op: table for op, table in tables.items() if table is not None}
    assert found and all(table.shape == (256,) for table in found.values())


def test_a_gate_is_a_sigmoid() -> None:
    graph = read_graph(ModelFile(genuine("act_silu.rk3588.i8")).model)
    tensor = next(tensor for tensor in graph.tensors if tensor.quant is not None)
    found = gate(tensor)
    assert found.dtype == np.float32 and (np.diff(found) >= 0).all() and 0 <= found[0] < found[-1] <= 1
