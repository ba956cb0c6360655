"""Convolutions whose weights are computed, and products with stored factors: what they add up, on numpy and on engines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rknnlite_graph.float_graph import float_graph
from rknnlite_graph.graph import ConvParams, Stage
from rknnlite_graph.lowering import Form

from rknnlite.errors import ModelInvalid
from rknnlite.tensor import DType, QuantParams
from tests.support.graphs import Shape, constant, one_node, run, tensor

rng = np.random.default_rng(7)
X, W, Y = QuantParams(0.03, -17), QuantParams(0.02, 9), QuantParams(0.11, 4)
FORMS = {
    "dense": ((2, 6, 9, 8), (5, 6, 3, 2), {}),
    "depthwise": ((1, 8, 9, 8), (8, 1, 4, 3), {"depthwise": True}),
    "padded, with strides": ((1, 6, 9, 8), (5, 6, 3, 3), {"strides": (2, 2), "pads": (1, 1)}),
    "spread": ((1, 6, 9, 8), (5, 6, 3, 3), {"dilations": (2, 1)}),
    "transposed": ((1, 6, 5, 4), (6, 5, 3, 3), {"transposed": True, "strides": (2, 2)}),
    "one result": ((1, 6, 9, 8), (1, 6, 4, 4), {}),
    "many channels": ((1, 96, 6, 6), (3, 96, 4, 4), {}),
}  # fmt: skip
"""(data, weights, how): the last one has sums beyond what float32 holds."""


def size(data: Shape, weights: Shape, how: dict[str, Any], bottom: int = 0) -> Shape:
    """The shape of the result, with as much padding behind as before."""
    strides, dilations, pads = (
        how.get(k, d) for k, d in (("strides", (1, 1)), ("dilations", (1, 1)), ("pads", (0, 0)))
    )
    if how.get("transposed"):
        return (data[0], weights[1], *((data[2 + i] - 1) * strides[i] + weights[2 + i] for i in range(2)))
    reach = [(weights[2 + i] - 1) * dilations[i] + 1 for i in range(2)]
    return (
        data[0],
        weights[0],
        *((data[2 + i] + 2 * pads[i] - reach[i]) // strides[i] + 1 for i in range(2)),
    )


def expected(x: np.ndarray, w: np.ndarray, how: dict[str, Any], shape: Shape) -> np.ndarray:
    """The sum as it is written down."""
    (sy, sx), (dy, dx), (top, left) = (
        how.get(k, d) for k, d in (("strides", (1, 1)), ("dilations", (1, 1)), ("pads", (0, 0)))
    )
    out = np.zeros(shape)
    if how.get("transposed"):
        for i, j in np.ndindex(*x.shape[2:]):
            out[:, :, i * sy : i * sy + w.shape[2], j * sx : j * sx + w.shape[3]] += np.einsum(
                "nc,cohw->nohw", x[:, :, i, j], w
            )
        return out
    padded = np.pad(x, ((0, 0), (0, 0), (top, 9), (left, 9)))
    for i, j in np.ndindex(*shape[2:]):
        window = padded[:, :, i * sy : i * sy + dy * w.shape[2] : dy, j * sx : j * sx + dx * w.shape[3] : dx]
        equation = "nchw,chw->nc" if how.get("depthwise") else "nchw,ochw->no"
        out[:, :, i, j] = np.einsum(equation, window, w[:, 0] if how.get("depthwise") else w)
    return out


def convolution(
    name: str, quantised: bool, bias: bool = False, op: str = "Conv"
) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
    """A plan, its operands (centred integers or reals), and its sums."""
    data, weights, how = FORMS[name]
    shape = size(data, weights, how)
    kind = DType.INT8 if quantised else DType.FLOAT32
    operands = [
        tensor("x", data, kind, X if quantised else None),
        tensor("w", weights, kind, W if quantised else None),
    ]
    rows = (weights[1], weights[0]) if how.get("transposed") else weights[:2]
    conv = ConvParams(
        lambda: np.zeros(()), (*rows, *weights[2:]), quantised, how.get("depthwise", False), how.get("transposed", False),
        how.get("strides", (1, 1)), how.get("dilations", (1, 1)), how.get("pads", (0, 0)), computed=True,
    )  # fmt: skip
    if bias:
        conv.bias = rng.integers(-900, 900, shape[1]).astype(np.float64)
    if quantised:
        conv.zero_point, conv.multiplier = np.full(shape[1], 9, np.float32), np.ones(shape[1])
    plan = one_node(
        op,
        operands,
        [tensor("y", shape, kind, Y if quantised else None)],
        conv=conv,
        stage=Stage(scale=0.0004),
    )
    if quantised:
        x, w = (rng.integers(-128, 128, s) - q.zero_point for s, q in ((data, X), (weights, W)))
    else:
        x, w = rng.standard_normal(data), rng.standard_normal(weights)
    sums = expected(x, w, how, shape) + (0 if conv.bias is None else conv.bias.reshape(1, -1, 1, 1))
    return plan, x.astype(np.float32), w.astype(np.float32), sums


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("name", FORMS)
def test_integers(name: str, bias: bool) -> None:
    plan, x, w, sums = convolution(name, True, bias)
    found = plan.run(dict(zip(plan.graph.inputs, (x, w))))[plan.graph.outputs[0]]
    wanted = np.clip(
        np.rint(sums.astype(np.float32) * np.float32(0.0004)), -128 - Y.zero_point, 127 - Y.zero_point
    )
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize("name", FORMS)
def test_real_numbers(name: str) -> None:
    plan, x, w, sums = convolution(name, False, True)
    assert np.allclose(run(plan, x, w)[0], sums, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("name", FORMS)
def test_the_graph_of_reals_has_the_same_network(name: str) -> None:
    """Bias and sums count in steps of both operands."""
    graph = convolution(name, True, True)[0].graph
    graph.nodes[0].stage.scale = X.scale * W.scale / Y.scale
    real = float_graph(graph).nodes[0].conv
    assert (
        real.computed
        and not real.quantised
        and np.allclose(real.bias, graph.nodes[0].conv.bias * (0.03 * 0.02))
    )


@pytest.mark.parametrize("op", ["Conv", "ConvRelu"])
@pytest.mark.parametrize("form", [Form.EXACT, Form.EXACT_INT8])
@pytest.mark.parametrize("name", FORMS)
def test_engines_give_the_same_bytes(name: str, form: Form, op: str) -> None:
    pytest.importorskip("onnxruntime")
    from tests.support.lowered import judged

    plan, x, w, _ = convolution(name, True, True, op)
    (verdict,) = judged(plan.graph, form, dict(zip(plan.graph.inputs, (x, w))))
    assert not verdict.reason and not verdict.different, str(verdict)


@pytest.mark.parametrize("form", [Form.EXACT, Form.FLOAT])
def test_engines_on_reals(form: Form) -> None:
    pytest.importorskip("onnxruntime")
    from tests.support.lowered import judged

    for name in FORMS:
        plan, x, w, _ = convolution(name, False, True)
        (verdict,) = judged(plan.graph, form, dict(zip(plan.graph.inputs, (x, w))))
        assert not verdict.reason and verdict.off < 1e-3, str(verdict)


def test_a_picture_over_itself() -> None:
    """The same tensor twice is one value."""
    data = (3, 3, 4, 4)
    x = tensor("x", data)
    conv = ConvParams(lambda: np.zeros(()), data, False, False, False, (1, 1), (1, 1), (0, 0), computed=True)
    plan = one_node("Conv", [x, x], [tensor("y", (3, 3, 1, 1))], conv=conv, stage=Stage())
    value = rng.standard_normal(data).astype(np.float32)
    assert np.allclose(run(plan, value)[0][..., 0, 0], np.einsum("nchw,ochw->no", value, value), atol=1e-4)


@pytest.mark.parametrize(
    ("weights", "shape"),
    [((5, 4, 3, 2), (2, 5, 7, 7)), ((4, 6, 3, 2), (2, 5, 7, 7)), ((5, 6, 3, 2), (2, 4, 7, 7))],
)
def test_weights_that_do_not_fit(weights: Shape, shape: Shape) -> None:
    conv = ConvParams(
        lambda: np.zeros(()), (5, 6, 3, 2), False, False, False, (1, 1), (1, 1), (0, 0), computed=True
    )
    operands = [tensor("x", (2, 6, 9, 8)), tensor("w", weights)]
    with pytest.raises(ModelInvalid, match="the_conv"):
        one_node("Conv", operands, [tensor("y", shape)], conv=conv, stage=Stage())


# -- products with stored factors ----------------------------------------------------------------------------------


def product(first: bool, depth: int, third: str = "") -> tuple[Any, np.ndarray, np.ndarray]:
    """A plan whose first or second factor is stored, the other one, and what is wanted."""
    stored = rng.integers(-128, 128, (3, depth, 1, 7))
    live = rng.integers(-128, 128, (3, depth, 1, 5)) - X.zero_point
    fixed = constant(stored.astype(np.int8), W)
    fixed.dtype = DType.INT8
    x = tensor("x", live.shape, DType.INT8, X)
    a, b = (stored - W.zero_point, live) if first else (live, stored - W.zero_point)
    shape = (3, a.shape[3], 1, b.shape[3])
    extra = [constant(np.full((1, 1, 1, 1), 0.25, np.float32))] if third else []
    y = QuantParams(0.005 * depth, 4)
    operands = [fixed, x] if first else [x, fixed]
    plan = one_node(
        "exMatMul", [*operands, *extra], [tensor("y", shape, DType.INT8, y)], {"c_type": third or "mul"}
    )
    wanted = np.einsum("bkxm,bkxn->bmxn", a, b) * (X.scale * W.scale / y.scale)
    wanted = wanted * 0.25 if third == "mul" else wanted + 0.25 / y.scale if third else wanted
    return plan, live.astype(np.float32), np.clip(np.rint(wanted), -132, 123)


@pytest.mark.parametrize("third", ["", "mul", "add"])
@pytest.mark.parametrize("depth", [12, 900])
@pytest.mark.parametrize("first", [True, False])
def test_stored_factors_are_taken_as_they_are(first: bool, depth: int, third: str) -> None:
    """With their zero point, which computed ones have not; 900 products pass what float32 holds."""
    plan, x, wanted = product(first, depth, third)
    found = plan.run({plan.graph.inputs[0]: x})[plan.graph.outputs[0]]
    assert np.abs(found - wanted).max() <= 1 and (found != wanted).mean() < 0.02


@pytest.mark.parametrize("form", [Form.EXACT, Form.EXACT_INT8])
@pytest.mark.parametrize("third", ["", "mul", "add"])
def test_engines_give_the_bytes_of_products(third: str, form: Form) -> None:
    pytest.importorskip("onnxruntime")
    from tests.support.lowered import judged

    for first in (True, False):
        for depth in (12, 900):
            plan, x, _ = product(first, depth, third)
            (verdict,) = judged(plan.graph, form, {plan.graph.inputs[0]: x})
            assert not verdict.reason and not verdict.different, str(verdict)
