"""Bilinear resizes in the integers of their registers."""

from __future__ import annotations

import numpy as np
from rknnlite_cpu.silicon.resizes import linear_kernel
from rknnlite_graph.node_view import NodeView
from rknnlite_graph.output_registers import OutputRegisters

from tests.support.graphs import one_node

from .nodes import in_registers, int8, run_stored

TWICE = OutputRegisters(out_multiplier=19418, out_shift=23, out_offset=5)
"""What the compiler makes of a map twice as large: weights of 27, 81, 81 and 243."""
HALF_PIXEL = {"mode": "linear", "coordinate_transformation_mode": "half_pixel", "nearest_mode": "floor"}


def test_halves_fall_towards_the_zero_point() -> None:
    x = np.array([[7, 9], [7, 11]], np.int8).reshape(1, 1, 2, 2)
    tensors = [int8("x", x.shape, 5)], [int8("y", (1, 1, 4, 4), 5)]
    plan = one_node("Resize", *tensors, attrs=HALF_PIXEL, stage=in_registers(TWICE))
    got = run_stored(plan, x)[0, 0]
    assert got[0].tolist() == [7, 7, 8, 9]  # 7, 7.5, 8.5, 9
    assert got[1].tolist() == [7, 8, 9, 9]  # 7, 7.625, 8.875, 9.5


def test_other_weights_are_left_to_the_simulator() -> None:
    """Three times as large, weights are thirds; registers that divide by another number have other weights."""
    for size, registers in ((6, TWICE), (4, OutputRegisters())):
        tensors = [int8("x", (1, 1, 2, 2), 5)], [int8("y", (1, 1, size, size), 5)]
        plan = one_node("Resize", *tensors, attrs=HALF_PIXEL)
        assert linear_kernel(NodeView(plan.graph, plan.graph.nodes[0]), registers) is None
