"""Fused operators: what their names stand for, and that nobody else needs to know."""

from __future__ import annotations

import pytest
from rknnlite_cpu.registry import builder_for
from rknnlite_graph.graph import Accumulator, Activation, FusedOp, Join
from rknnlite_graph.operators import TABLE_FUNCTIONS
from rknnlite_graph.read import read_graph
from rknnlite_graph.reading.fused_ops import fused_op

from rknnlite.formats import ModelFile
from tests.support.corpus import genuine

CONV, TRANSPOSED, OPERAND = Accumulator.CONV, Accumulator.CONV_TRANSPOSE, Accumulator.OPERAND
RELU, LEAKY, TABLE = Activation.RELU, Activation.LEAKY_RELU, Activation.TABLE


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("Conv", FusedOp(CONV)),
        ("ConvTranspose", FusedOp(TRANSPOSED)),
        ("ConvRelu", FusedOp(CONV, after=RELU)),
        ("ConvAddRelu", FusedOp(CONV, join=Join.ADD, after=RELU)),
        ("ConvReluAdd", FusedOp(CONV, before=RELU, join=Join.ADD)),
        ("ConvTransposeLeakyReluAdd", FusedOp(TRANSPOSED, before=LEAKY, join=Join.ADD)),
        ("ConvMul", FusedOp(CONV, join=Join.MUL)),
        ("ConvPRelu", FusedOp(CONV, after=Activation.PRELU)),
        ("ConvexSwish", FusedOp(CONV, after=TABLE, function="ExSwish")),
        ("ConvTransposeExSwish", FusedOp(TRANSPOSED, after=TABLE, function="ExSwish")),
        ("ConvTangens", FusedOp(CONV, after=TABLE, function="Tangens")),
        ("BatchNormalizationRelu", FusedOp(Accumulator.BATCH_NORM, after=RELU)),
        ("Add", FusedOp(OPERAND, join=Join.ADD)),
        ("MulRelu", FusedOp(OPERAND, join=Join.MUL, after=RELU)),
        ("LeakyRelu", FusedOp(OPERAND, after=LEAKY)),
    ],
)
def test_names(op: str, expected: FusedOp) -> None:
    assert fused_op(op) == expected


@pytest.mark.parametrize(
    "op", ["exMatMul", "MaxPool", "exConvTransposePad", "cstAdd", "Sigmoid", "LeakyReluRelu"]
)
def test_other_types_are_not_fused(op: str) -> None:
    assert fused_op(op) is None


def test_questions() -> None:
    leaky = FusedOp(CONV, before=LEAKY, join=Join.ADD)
    assert leaky.convolves and not leaky.plain and leaky.applies(RELU, LEAKY) and not leaky.applies(RELU)
    assert FusedOp(TRANSPOSED).plain and not FusedOp(OPERAND, join=Join.ADD).convolves


def test_nodes_of_a_file_carry_it() -> None:
    nodes = read_graph(ModelFile(genuine("residual_leaky_add.rk3588.i8")).model).nodes
    fused = [node.fused for node in nodes if node.op == "ConvLeakyReluAdd"]
    assert fused and set(fused) == {FusedOp(CONV, before=LEAKY, join=Join.ADD)}


@pytest.mark.parametrize("function", TABLE_FUNCTIONS)
def test_a_row_is_all_that_the_reference_needs(function: str) -> None:
    assert builder_for(f"Conv{function}") is builder_for("Conv") is not None
    found = fused_op(f"Conv{function}")
    assert found is not None and found.function == function


def test_unknown_functions_are_not_computed() -> None:
    assert builder_for("ConvTangens") is None
