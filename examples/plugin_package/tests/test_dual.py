"""The operator behind a genuine model on the CPU reference; no board is needed."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from rknnlite_dual.op import DualResidual

import rknnlite
from rknnlite.spi import OpContext, OpNode

MODEL = Path(__file__).with_name("dual_for_RK3588.rknn")
ANSWERS = np.load(MODEL.with_suffix(".npz"))
"""Inputs, and what the simulator answered to them when the model was converted."""
PICTURES = [ANSWERS["in0"], ANSWERS["in1"]]


def check(context: rknnlite.Context) -> None:
    """Run the model; an int8 output may be one step off, seldom."""
    for number, (output, attr) in enumerate(zip(context.infer(PICTURES), context.outputs)):
        steps = np.abs(output - ANSWERS[f"out{number}"]) / attr.quant.scale
        assert steps.max() < 1.01
        assert (steps > 0.5).mean() < 0.01


def test_the_arithmetic() -> None:
    op = DualResidual()
    x, y = np.float32([[1, 2]]), np.float32([[10, -4]])
    outputs = [np.zeros_like(x), np.zeros_like(y)]
    ctx = OpContext(OpNode("cstDualResidual", "node", {"alpha": 0.5}))
    op.init(ctx, [x, y], outputs)
    op.compute(ctx, [x, y], outputs)
    assert np.array_equal(outputs[0], x * 0.5 - y)
    assert np.array_equal(outputs[1], y * 0.5 - x)


def test_a_missing_attribute_is_an_error() -> None:
    ctx = OpContext(OpNode("cstDualResidual", "node", {"beta": 0.5}))
    with pytest.raises(rknnlite.RknnError, match="no attribute 'alpha'; there are: beta"):
        DualResidual().init(ctx, [np.zeros(2)] * 2, [np.zeros(2)] * 2)


def test_inputs_of_two_shapes_are_an_error() -> None:
    ctx = OpContext(OpNode("cstDualResidual", "node", {"alpha": 0.5}))
    with pytest.raises(rknnlite.RknnError, match="one shape"):
        DualResidual().init(ctx, [np.zeros(2), np.zeros(3)], [np.zeros(2)] * 2)


def test_a_genuine_model_gives_the_simulators_numbers() -> None:
    with rknnlite.open(MODEL, backend="cpu", custom_ops=[DualResidual()]) as context:
        check(context)


def test_the_installed_package_is_found() -> None:
    entries = metadata.entry_points()
    named = entries.select(group="rknnlite") if hasattr(entries, "select") else entries.get("rknnlite", [])
    if "rknnlite_dual" not in {entry.value for entry in named}:
        pytest.skip("install the package first: pip install -e .")
    with rknnlite.open(MODEL, backend="cpu") as context:
        check(context)
