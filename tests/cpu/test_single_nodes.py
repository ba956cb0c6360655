"""Single nodes for another backend: stored elements in, stored elements out."""

from __future__ import annotations

import numpy as np
import pytest
from rknnlite_backend.node_runners import NodeRunner, nodes_on_cpu
from rknnlite_cpu.backend import CpuBackend
from rknnlite_graph.graph import Graph
from rknnlite_graph.read import read_graph

from rknnlite import errors
from rknnlite.formats import ModelFile
from rknnlite.spi import CustomOp, OpContext
from tests.custom_ops.models import DUAL, FullDual
from tests.support.corpus import genuine


def graph_of(name: str) -> Graph:
    return read_graph(ModelFile(genuine(name)).model)


def runner(graph: Graph, *nodes: int, ops: tuple[CustomOp, ...] = ()) -> NodeRunner:
    return CpuBackend().node_runner(
        graph, nodes, "model", {op.op_type: op for op in ops}, ("cstDualResidual",)
    )


def test_a_quotient_of_stored_bytes() -> None:
    graph = graph_of("arithmetic.rk3588.i8")
    node = next(node for node in graph.nodes if node.op == "Div")
    found = runner(graph, node.index)
    operands = list(found.operands(node.index))
    assert operands == node.inputs and len(operands) == 2
    random = np.random.default_rng(0)
    stored = {i: random.integers(-128, 128, graph.tensors[i].shape).astype(np.int8) for i in operands}
    ((index, result),) = found.run(node.index, stored).items()
    assert index == node.outputs[0] and result.dtype == np.int8
    a, b, y = (graph.tensors[i].quant for i in (*operands, index))
    assert a and b and y
    divisor = (stored[operands[1]].astype(float) - b.zero_point) * b.scale
    real = (
        (stored[operands[0]].astype(float) - a.zero_point) * a.scale / np.where(divisor == 0, np.nan, divisor)
    )
    wanted = np.clip(np.rint(real / y.scale) + y.zero_point, -128, 127)
    known = ~np.isnan(wanted)
    assert np.abs(result[known] - wanted[known]).max() <= 1


def test_an_operator_takes_its_nodes_and_gives_them_back() -> None:
    closed = []

    class Seen(FullDual):
        def destroy(self, ctx: OpContext) -> None:
            closed.append(ctx.node.name)

    graph = read_graph(ModelFile(DUAL).model)
    node = next(node for node in graph.nodes if node.op == "cstDualResidual")
    stored = {
        i: np.zeros(graph.tensors[i].shape, graph.tensors[i].dtype.numpy) for i in node.inputs if i >= 0
    }
    found = runner(graph, node.index)
    stored = {i: stored[i] for i in found.operands(node.index)}
    with pytest.raises(errors.ModelUnsupported, match="nobody registered one"):
        found.run(node.index, stored)
    op = Seen()
    found.register(op)
    assert sorted(found.run(node.index, stored)) == sorted(node.outputs)
    twin = found.twin({op.op_type: op})
    twin.run(node.index, stored)
    found.close()
    assert len(closed) == 1
    twin.close()
    assert len(closed) == 2


def test_the_reference_is_found_by_what_it_is() -> None:
    assert isinstance(nodes_on_cpu(), CpuBackend)
