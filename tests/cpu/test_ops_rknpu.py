"""Operators that ONNX does not have, or that are special on integers: against direct formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rknnlite_cpu.ops import builder_of
from rknnlite_cpu.values import encode, round_bf16, round_f16
from rknnlite_graph.graph import ConvParams, Stage

from rknnlite.errors import ModelInvalid, RknnError
from rknnlite.quant import quantise
from rknnlite.tensor import DType, QuantParams
from tests.support.graphs import compute, constant, one_node, run, tensor

rng = np.random.default_rng(23)


def real(*shape: int) -> np.ndarray:
    return rng.uniform(-3, 3, shape).astype(np.float32)


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x.astype(np.float64) - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def close(a: np.ndarray, b: np.ndarray, tolerance: float = 1e-5) -> bool:
    return a.shape == b.shape and np.allclose(a, b, rtol=tolerance, atol=tolerance)


# -- forms of the compiler --------------------------------------------------------------------------------------


def test_ex_matmul() -> None:
    a, b = real(2, 6, 1, 3), real(2, 6, 1, 5)
    expected = np.einsum("bkxm,bkxn->bmxn", a, b)
    assert close(compute("exMatMul", [a, b], (2, 3, 1, 5)), expected)
    c = real(1, 3, 1, 5)
    assert close(compute("exMatMul", [a, b], (2, 3, 1, 5), {"c_type": "mul"}, constants=[c]), expected * c)
    assert close(compute("exMatMul", [a, b], (2, 3, 1, 5), {"c_type": "add"}, constants=[c]), expected + c)


def test_attention() -> None:
    q, k, v = real(4, 8, 1, 5), real(4, 8, 1, 7), real(4, 8, 1, 7)
    mask = np.where(rng.random((1, 7, 1, 5)) < 0.3, -1e4, 0).astype(np.float32)
    scores = 0.25 * np.einsum("hdxq,hdxk->hqk", q, k)
    for extra, bias in (([], 0), ([mask], mask[:, :, 0].transpose(0, 2, 1))):
        weights = softmax(scores + bias, -1)
        expected = np.einsum("hqk,hdxk->hdxq", weights, v)
        got = compute("exSDPAttention", [q, k, v, *extra], (4, 8, 1, 5), {"scale": 0.25})
        assert close(got, expected)


def test_integer_attention_stores_scores_and_softmax_as_int8() -> None:
    quant = QuantParams(0.02, 3)
    q, k, v = (quantise(real(2, 8, 1, n), quant, DType.INT8).astype(np.float32) for n in (5, 7, 7))
    q, k, v = ((x - 3) * np.float32(0.02) for x in (q, k, v))
    attrs = {"scale": 0.35, "score_step": 0.04, "score_zero_point": -11, "weight_step": 0.0031}
    tensors = [tensor(n, x.shape, DType.INT8, quant) for n, x in zip("qkv", (q, k, v))]
    plan = one_node("exSDPAttention", tensors, [tensor("y", (2, 8, 1, 5))], attrs)
    scores = np.clip(np.rint(0.35 * np.einsum("hdxq,hdxk->hqk", q, k) / 0.04), -117, 138) * 0.04
    weights = np.clip(np.rint(softmax(scores, -1) / 0.0031), 0, 255) * 0.0031
    assert close(run(plan, q, k, v)[0], np.einsum("hqk,hdxk->hdxq", weights, v), 1e-4)


def test_product_requantises_its_second_operand() -> None:
    """Without a calibrated range, in the step that the registers tell."""
    quant, step = QuantParams(0.02, 3), 0.0211
    a, b = (np.rint(real(1, 6, 1, n) / 0.02).clip(-100, 100) * np.float32(0.02) for n in (4, 5))
    tensors = [tensor("a", a.shape, DType.INT8, quant), tensor("b", b.shape, DType.INT8, quant)]
    found = run(one_node("exMatMul", tensors, [tensor("y", (1, 4, 1, 5))], {"b_step": step}), a, b)[0]
    assert close(found, np.einsum("bkxm,bkxn->bmxn", a, np.rint(b / step) * step), 1e-4)


@pytest.mark.parametrize(("op", "rounded"), [("Mul", True), ("Add", True), ("BatchNormalization", False)])
def test_float32_constants_of_float16_layers(op: str, rounded: bool) -> None:
    x = real(1, 3, 4, 4).astype(np.float16).astype(np.float32)
    c = np.float32(0.7) + np.zeros((1, 3, 1, 1), np.float32)
    used = c.astype(np.float16).astype(np.float32) if rounded else c
    live, target = tensor("x", x.shape, DType.FLOAT16), tensor("y", x.shape, DType.FLOAT16)
    if op == "BatchNormalization":
        zero, one = np.zeros(3, np.float32), np.ones(3, np.float32)
        operands = [live, constant(one), constant(c.reshape(-1)), constant(zero), constant(one)]
        found = run(one_node(op, operands, [target], {"epsilon": 0.0}), x)[0]
        expected = x + used
    else:
        found = run(one_node(op, [live, constant(c)], [target]), x)[0]
        expected = x * used if op == "Mul" else x + used
    assert np.array_equal(found, round_f16(expected))


def test_cast_to_bool_held_as_int8() -> None:
    x = np.array([[0.0, 0.4, -3.0, 7.0]], np.float32)
    operands = [tensor("x", x.shape)], [tensor("y", x.shape, DType.INT8, QuantParams(1.0, 0))]
    assert run(one_node("Cast", *operands, {"to": 9}), x)[0].tolist() == [[0, 1, 1, 1]]
    assert run(one_node("Cast", *operands, {"to": 6}), x)[0].tolist() == [[0, 0, -3, 7]]


@pytest.mark.parametrize(
    ("reduction", "wanted"), [("add", [1, 5, 3]), ("mul", [1, 4, 3]), ("max", [1, 2, 3]), ("none", [1, 1, 3])]
)
def test_scattered_values_may_be_joined(reduction: str, wanted: list[int]) -> None:
    x, index, updates = np.array([1, 2, 3], np.float32), np.array([[1], [1]]), np.array([2, 1], np.float32)
    attrs = {"reduction": reduction}
    assert compute("ScatterND", [x], (3,), attrs, constants=[index, updates]).tolist() == wanted
    assert compute("ScatterElements", [x], (3,), attrs, constants=[index[:, 0], updates]).tolist() == wanted


@pytest.mark.parametrize("mode", ["layer", "rms", "l1", "l2", "pixel"])
@pytest.mark.parametrize("axes", [[1], [-1], [2, 3]])
def test_ex_norm(mode: str, axes: list[int]) -> None:
    x = real(2, 5, 3, 4)
    along = tuple(axes)
    x64 = x.astype(np.float64)
    centred = x64 - x64.mean(axis=along, keepdims=True)
    expected = {
        "layer": centred / np.sqrt((centred**2).mean(axis=along, keepdims=True) + 1e-3),
        "rms": x64 / np.sqrt((x64**2).mean(axis=along, keepdims=True) + 1e-3),
        "l1": x64 / (np.abs(x64).sum(axis=along, keepdims=True) + 1e-3),
        "l2": x64 / np.sqrt((x64**2).sum(axis=along, keepdims=True) + 1e-3),
        "pixel": x64 / np.sqrt((x64**2).sum(axis=along, keepdims=True) + 1e-3),
    }[mode]
    attrs = {"mode": mode, "axes": axes, "epsilon": 1e-3}
    assert close(compute("exNorm", [x], x.shape, attrs), expected)
    size = int(np.prod([x.shape[a] for a in axes]))
    gamma, beta = real(size), real(size)
    shape = [n if i in [a % 4 for a in axes] else 1 for i, n in enumerate(x.shape)]
    scaled = expected * gamma.reshape(shape) + beta.reshape(shape)
    assert close(compute("exNorm", [x], x.shape, attrs, constants=[gamma, beta]), scaled)


def test_unknown_norm_mode() -> None:
    with pytest.raises(RknnError, match=r'exNorm "the_exnorm".*mode .*median'):
        compute("exNorm", [real(1, 2, 3)], (1, 2, 3), {"mode": "median", "axes": [1]})


@pytest.mark.parametrize("axis", [1, -1])
def test_ex_softmax(axis: int) -> None:
    x = real(2, 5, 3)
    assert close(compute("exSoftmax13", [x], x.shape, {"axis": axis}), softmax(x, axis))


def test_group_normalisation() -> None:
    x, gamma, beta = real(2, 6, 3, 3), real(6), real(6)
    cells = x.reshape(2, 3, -1).astype(np.float64)
    normal = (cells - cells.mean(-1, keepdims=True)) / np.sqrt(cells.var(-1, keepdims=True) + 1e-5)
    expected = normal.reshape(x.shape) * gamma.reshape(1, 6, 1, 1) + beta.reshape(1, 6, 1, 1)
    got = compute(
        "GroupNormalization", [x], x.shape, {"num_groups": 3, "epsilon": 1e-5}, constants=[gamma, beta]
    )
    assert close(got, expected)


def test_ex_conv_transpose_pad() -> None:
    """Zeros between the elements, then dilation * (kernel - 1) - pad around them."""
    x = real(1, 2, 3, 4)
    expected = np.zeros((1, 2, 3 * 3 - 2 + 2 + 2, 4 * 2 - 1 + 1 + 3), np.float32)
    expected[:, :, 2 : 2 + 7 : 3, 1 : 1 + 7 : 2] = x
    attrs = {"strides": [3, 2], "kernel_shape": [3, 3], "dilations": [1, 1], "pads": [0, 1, 0, 0]}
    assert np.array_equal(compute("exConvTransposePad", [x], expected.shape, attrs), expected)


# -- rounding to the element type --------------------------------------------------------------------------------


@given(st.floats(-7e4, 7e4, width=32))
def test_float16_results_are_rounded(value: float) -> None:
    (got,) = compute("Neg", [np.array([value], np.float32)], (1,), dtype=DType.FLOAT16)
    with np.errstate(over="ignore"):
        assert got == np.float32(np.float16(-value))
    assert round_f16(np.array([value], np.float32)).dtype == np.float32


@given(st.floats(width=32, allow_nan=False))
def test_bfloat16_rounds_to_nearest(value: float) -> None:
    x = np.array([value], np.float32)
    got = round_bf16(x)
    assert got.view(np.uint32)[0] & 0xFFFF == 0 or np.isinf(got[0])
    if np.isfinite(got[0]):
        neighbours = (x.view(np.uint32) & 0xFFFF0000, (x.view(np.uint32) & 0xFFFF0000) + 0x10000)
        distance = [abs(float(n.view(np.float32)[0]) - value) for n in neighbours]
        assert abs(float(got[0]) - value) == min(distance)


def test_integers_saturate_when_cast() -> None:
    x = np.array([-1e9, -1.5, 3.7, 1e9, np.nan], np.float32)
    assert compute("Cast", [x], (5,), dtype=DType.INT8).tolist() == [-128, -1, 3, 127, 0]


# -- int8 -------------------------------------------------------------------------------------------------------

A, B, C = QuantParams(0.05, -10), QuantParams(0.02, 30), QuantParams(0.1, 5)


def int8(name: str, shape: tuple[int, ...], quant: QuantParams) -> Any:
    return tensor(name, shape, DType.INT8, quant)


def stored(x: np.ndarray, quant: QuantParams) -> np.ndarray:
    """The real values that an int8 tensor can hold."""
    return (quantise(x, quant).astype(np.float32) - quant.zero_point) * np.float32(quant.scale)


def requantised(real_values: np.ndarray, quant: QuantParams) -> np.ndarray:
    return quantise(np.asarray(real_values, np.float32), quant)


def int8_outputs(plan: Any, *arrays: np.ndarray) -> list[np.ndarray]:
    """Stored integers of the outputs."""
    outputs = run(plan, *arrays)
    return [
        quantise(o, plan.graph.tensors[i].quant) if plan.graph.tensors[i].quant else o
        for o, i in zip(outputs, plan.graph.outputs)
    ]


FUNCTIONS = {
    "Relu": lambda x: np.maximum(x, 0),
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Tanh": np.tanh,
    "exSwish": lambda x: x / (1 + np.exp(-x)),
    "HardSwish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "Exp": np.exp,
    "exMish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "Abs": np.abs,
}


@pytest.mark.parametrize("op", FUNCTIONS)
def test_functions_on_all_256_values(op: str) -> None:
    """One table look-up per element gives what the function gives."""
    every = (np.arange(-128, 128, dtype=np.float32) - A.zero_point) * np.float32(A.scale)
    (got,) = int8_outputs(one_node(op, [int8("x", (256,), A)], [int8("y", (256,), C)]), every)
    expected = requantised(FUNCTIONS[op](every.astype(np.float64)), C).astype(int)
    assert np.abs(got.astype(int) - expected).max() <= 1
    assert (got == expected).mean() > 0.99


@pytest.mark.parametrize(
    ("op", "function"), [("Add", np.add), ("Mul", np.multiply), ("Sub", np.subtract), ("Max", np.maximum)]
)
def test_two_operands_of_different_scales(op: str, function: Any) -> None:
    a, b = stored(real(2, 3, 4), A), stored(real(2, 3, 4), B)
    (got,) = int8_outputs(
        one_node(op, [int8("a", a.shape, A), int8("b", b.shape, B)], [int8("y", a.shape, C)]), a, b
    )
    assert np.array_equal(got, requantised(function(a, b), C))


def test_concat_requantises_to_the_output() -> None:
    a, b = stored(real(1, 2, 3), A), stored(real(1, 1, 3), B)
    plan = one_node(
        "Concat", [int8("a", a.shape, A), int8("b", b.shape, B)], [int8("y", (1, 3, 3), C)], {"axis": 1}
    )
    (got,) = int8_outputs(plan, a, b)
    assert np.array_equal(got, requantised(np.concatenate([a, b], axis=1), C))


def test_moving_elements_keeps_the_bytes() -> None:
    a = stored(real(1, 4, 3, 2), A)
    plan = one_node(
        "Transpose", [int8("a", a.shape, A)], [int8("y", (1, 2, 4, 3), A)], {"perm": [0, 3, 1, 2]}
    )
    (got,) = int8_outputs(plan, a)
    assert np.array_equal(got, quantise(a, A).transpose(0, 3, 1, 2))


def test_data_convert_between_integers_and_floats() -> None:
    a = stored(real(2, 5), A)
    (as_float,) = run(
        one_node("exDataConvert", [int8("a", a.shape, A)], [tensor("y", a.shape, DType.FLOAT16)]), a
    )
    assert np.array_equal(as_float, a.astype(np.float16))
    (other,) = int8_outputs(one_node("exDataConvert", [int8("a", a.shape, A)], [int8("y", a.shape, C)]), a)
    assert np.array_equal(other, requantised(a, C))


def test_integer_batch_normalisation() -> None:
    """y = (q * gamma_q + beta_q) * scale_x * scale_gamma, the zero point folded into beta."""
    a = stored(real(1, 3, 2, 2), A)
    gamma_q, beta_q = np.array([100, -200, 50], np.int16), np.array([3000, 0, -40000], np.int32)
    gamma = QuantParams(0.004, 0)
    q = quantise(a, A).astype(np.int64)
    expected = (q * gamma_q.reshape(1, 3, 1, 1) + beta_q.reshape(1, 3, 1, 1)) * A.scale * gamma.scale
    operands = [int8("a", a.shape, A), constant(gamma_q, gamma), constant(beta_q)]
    (got,) = int8_outputs(one_node("BatchNormalization", operands, [int8("y", a.shape, C)]), a)
    assert np.abs(got.astype(int) - requantised(expected, C)).max() <= 1
    (relu,) = int8_outputs(one_node("BatchNormalizationRelu", operands, [int8("y", a.shape, C)]), a)
    assert np.abs(relu.astype(int) - requantised(np.maximum(expected, 0), C)).max() <= 1


# -- convolutions: the output stage -------------------------------------------------------------------------------


def conv_node(op: str, extra: Any = None, **changes: Any) -> tuple[Any, np.ndarray, np.ndarray]:
    """A 1x1 int8 convolution of 4 to 3 channels; returns plan, inputs, and the exact real result before its tail."""
    x = quantise(real(1, 4, 5, 5), A)
    weight = rng.integers(-120, 120, (3, 4, 1, 1)).astype(np.int8)
    zero = np.array([3, -7, 0], np.float32)
    bias = np.array([500, -2000, 100], np.int32)
    multiplier = np.array([1.0, 0.5, 0.25])
    conv = ConvParams(
        weight=lambda: weight, weight_shape=(3, 4, 1, 1), quantised=True, depthwise=False, transposed=False,
        strides=(1, 1), dilations=(1, 1), pads=(0, 0), bias=bias, zero_point=zero, multiplier=multiplier,
    )  # fmt: skip
    stage = Stage(scale=0.002)
    for name, value in changes.items():
        setattr(stage if hasattr(stage, name) else conv, name, value)
    operands = [int8("x", x.shape, A), *([] if extra is None else [extra])]
    plan = one_node(op, operands, [int8("y", (1, 3, 5, 5), C)], conv=conv, stage=stage)
    centred = weight.astype(np.int64)[:, :, 0, 0] - zero.astype(np.int64)[:, None]
    acc = np.einsum("oc,nchw->nohw", centred, x.astype(np.int64)) + bias.reshape(1, 3, 1, 1)
    result = acc * multiplier.reshape(1, 3, 1, 1) * stage.scale * C.scale
    return plan, (x.astype(np.float32) - A.zero_point) * np.float32(A.scale), result


def agrees(got: np.ndarray, expected: np.ndarray) -> bool:
    """Equal but for ties: at most a percent is one step off."""
    off = np.abs(got.astype(int) - requantised(expected, C).astype(int))
    return bool(off.max() <= 1 and (off > 0).mean() <= 0.02)


@pytest.mark.parametrize(
    ("op", "changes", "tail"),
    [
        ("Conv", {}, lambda y: y),
        ("ConvRelu", {}, lambda y: np.maximum(y, 0)),
        ("ConvLeakyRelu", {"slope": 0.125}, lambda y: np.where(y < 0, y * 0.125, y)),
        (
            "ConvPRelu",
            {"slope": np.array([0.5, 0.25, -1], np.float32)},
            lambda y: np.where(y < 0, y * np.array([0.5, 0.25, -1]).reshape(1, 3, 1, 1), y),
        ),
    ],
)  # fmt: skip
def test_tails_of_one_operand(op: str, changes: dict[str, Any], tail: Any) -> None:
    if op == "ConvPRelu":
        plan, x, result = conv_node(op)
        plan.graph.nodes[0].conv.slope = changes["slope"]
        plan = type(plan)(plan.graph, "again")
    else:
        plan, x, result = conv_node(op, **changes)
    (got,) = int8_outputs(plan, x)
    assert agrees(got, tail(result))


@pytest.mark.parametrize(
    ("op", "tail"),
    [
        ("ConvAdd", lambda y, e: y + e),
        ("ConvAddRelu", lambda y, e: np.maximum(y + e, 0)),
        ("ConvReluAdd", lambda y, e: np.maximum(y, 0) + e),
    ],
)  # fmt: skip
def test_tails_with_a_second_operand(op: str, tail: Any) -> None:
    e = stored(real(1, 3, 5, 5), B)
    plan, x, result = conv_node(op, int8("e", e.shape, B))
    (got,) = int8_outputs(plan, x, e)
    assert agrees(got, tail(result, e))


def test_conv_mul_holds_the_operands_scale_in_its_own() -> None:
    e = stored(real(1, 3, 5, 5), B)
    plan, x, result = conv_node("ConvMul", int8("e", e.shape, B))
    (got,) = int8_outputs(plan, x, e)
    assert agrees(got, result * e / B.scale)


def test_convolution_without_decoded_parameters() -> None:
    with pytest.raises(ModelInvalid, match=r'node Conv "the_conv": it has no decoded parameters'):
        one_node("Conv", [int8("x", (1, 4, 5, 5), A)], [int8("y", (1, 3, 5, 5), C)])


# -- windows ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("counts", "sizes"), [((2, 3), (4, 5)), ((3, 1), (1, 7)), ((2, 2), (3, 3))])
def test_windows_of_a_picture_and_back(counts: tuple[int, int], sizes: tuple[int, int]) -> None:
    (down, across), (tall, wide) = counts, sizes
    x = real(2, 3, down * tall, across * wide)
    attrs = {"mode": "partition", "num_windows": list(counts), "window_sizes": list(sizes)}
    cut = compute("exWindow", [x], (2, 3, down * across, tall * wide), attrs)
    for window in range(down * across):
        top, left = window // across * tall, window % across * wide
        piece = x[:, :, top : top + tall, left : left + wide]
        assert np.array_equal(cut[:, :, window], piece.reshape(2, 3, -1))
    assert np.array_equal(compute("exWindow", [cut], x.shape, {**attrs, "mode": "reverse"}), x)


def test_windows_of_every_second_row() -> None:
    x = real(1, 3, 8, 12)
    attrs = {"mode": "partition_num_first", "num_windows": [2, 3], "window_sizes": [4, 4]}
    cut = compute("exWindow", [x], (1, 3, 6, 16), attrs)
    for window in range(6):
        assert np.array_equal(cut[:, :, window], x[:, :, window // 3 :: 2, window % 3 :: 3].reshape(1, 3, 16))


@pytest.mark.parametrize(
    ("attrs", "text"),
    [
        ({"mode": "shuffle"}, "mode 'shuffle'"),
        ({"num_windows": [2]}, r"\[2\].*not two numbers each"),
        ({"window_sizes": [3, 2]}, r"does not turn \[1, 3, 4, 6\] into \[1, 3, 4, 6\]"),
    ],
)
def test_windows_that_do_not_fit(attrs: dict[str, Any], text: str) -> None:
    fitting = {"mode": "partition", "num_windows": [2, 2], "window_sizes": [2, 3]}
    with pytest.raises(RknnError, match=f'exWindow "the_exwindow".*{text}'):
        compute("exWindow", [real(1, 3, 4, 6)], (1, 3, 4, 6), {**fitting, **attrs})


def test_an_average_adds_in_the_order_of_the_kernel() -> None:
    """Means of integers lie between two steps exactly: the order decides, and the simulator's is this one."""
    x = rng.integers(-128, 128, (1, 16, 12, 12)).astype(np.float32) * np.float32(7 / 255)
    total = np.zeros((1, 16, 6, 6), np.float32)
    for row, column in np.ndindex(2, 2):
        total += x[:, :, row::2, column::2]
    attrs = {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [0, 0, 0, 0]}
    assert np.array_equal(compute("AveragePool", [x], (1, 16, 6, 6), attrs), total / np.float32(4))


# -- the registry -------------------------------------------------------------------------------------------------

VOCABULARY = """
Conv ConvRelu ConvClip ConvLeakyRelu ConvPRelu ConvSigmoid ConvTanh ConvElu ConvHardSwish ConvHardSigmoid
ConvSoftplus ConvExSwish ConvExGelu ConvExMish ConvAdd ConvAddRelu ConvMul ConvTranspose ConvTransposeRelu
ConvTransposeClip ConvTransposeLeakyRelu ConvTransposeSigmoid ConvTransposeTanh ConvTransposeElu
ConvTransposeHardSwish ConvTransposeexSwish ConvTransposeexGelu exConvTransposePad Add Sub Mul Div Max Min
AddRelu MulRelu Relu Clip LeakyRelu PRelu Elu HardSigmoid HardSwish Sigmoid Tanh Softplus exSwish exGelu
exMish Exp Log Sqrt Pow Erf Sin Cos Round Floor Sign Selu Celu Less Greater GreaterOrEqual Where Cast
MaxPool AveragePool Concat Split Slice Reshape Transpose Expand Pad Gather Tile Resize exSoftmax13
LogSoftmax exDataConvert exMatMul exSDPAttention exNorm BatchNormalization BatchNormalizationRelu ArgMax
ReduceMax ReduceMin TopK exGRU exLSTM GRU LSTM GridSample Ceil Mish Softsign Tan Asin Acos Atan Sinh Cosh
Asinh Acosh Atanh Shrink ThresholdedRelu Hardmax LRN MeanVarianceNormalization Mod LessOrEqual Equal And Or
Xor Not IsNaN ReduceMean ReduceSumSquare ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceProd ArgMin
GatherND ScatterND ScatterElements SpaceToDepth OneHot Trilu GroupNormalization GlobalLpPool LpPool Mean Sum
exWindow RoiAlign MaxRoiPool MaxUnpool QuantizeLinear DequantizeLinear
exGlu IsInf EyeLike CastLike CenterCropPad Col2Im Compress DFT Det Einsum
"""


@pytest.mark.parametrize("op", VOCABULARY.split())
def test_the_vocabulary_of_the_converter_is_known(op: str) -> None:
    assert builder_of(op) is not None


def test_runtime_values_round_trip() -> None:
    q = tensor("q", (3,), DType.INT8, A)
    assert encode(np.array([1e9, -1e9, 0.0]), q).tolist() == [127 - A.zero_point, -128 - A.zero_point, 0]
