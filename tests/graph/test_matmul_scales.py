"""Steps inside matrix products and attention nodes, from register commands as the compiler writes them."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from rknnlite_graph.graph import Node, Tensor, TensorRole
from rknnlite_graph.read import read_graph
from rknnlite_graph.reading.matmul_scales import attention_steps, hidden_attributes, product_steps
from rknnlite_graph.reading.npu_families import NpuFamily, family_of
from rknnlite_graph.reading.registers import RegisterProgram

from rknnlite.errors import ModelUnsupported
from rknnlite.formats import ModelFile
from rknnlite.tensor import DType, QuantParams
from tests.support.corpus import genuine, golden_of, open_cpu

OLD = {"offset": 0x4080, "scale": 0x4084, "shift": 0x4088, "operand": 0x4078}
V1, V2A, V2B = map(family_of, ("RKNPU v2", "RKNPU t4", "RKNPU f2"))
T3, W1 = map(family_of, ("RKNPU t3", "RKNPU w1"))
NEW = {"offset": 0x40AC, "scale": 0x40B0, "shift": 0x40B4, "operand": 0x4084}
PLACES = {V1: OLD, T3: OLD, V2A: NEW, V2B: NEW}


def program(*runs: dict[int, int]) -> RegisterProgram:
    """One node; each run sets some registers."""
    blobs = [
        (
            0,
            memoryview(
                b"".join(struct.pack("<Q", value << 32 | place << 16) for place, value in run.items())
            ),
        )
        for run in runs
    ]
    return RegisterProgram.from_blobs(blobs)


def scaled(factor: float) -> tuple[int, int]:
    """(scale of 15 bits, shift) of a factor."""
    shift = 14 - math.frexp(factor)[1]
    return round(factor * 2**shift), shift


def output(places: dict[str, int], factor: float, offset: int) -> dict[int, int]:
    """A run that multiplies its results by ``factor``; bit 16 of the scale is a flag."""
    scale, shift = scaled(factor)
    return {places["offset"]: offset & 0xFFFFFFFF, places["scale"]: 1 << 16 | scale, places["shift"]: shift}


def activation(
    scale: float, zero_point: int, limits: tuple[float, float] | None = None, keys: int = 12
) -> Tensor:
    quant = QuantParams(scale, zero_point)
    return Tensor(0, "t", DType.INT8, (4, 16, 1, keys), TensorRole.ACTIVATION, quant, value_range=limits)


Q, K, V = activation(0.025, -5, (-3.1, 3.3)), activation(0.0275, 0), activation(0.026, -7)
Y = activation(0.0125, -16)


@pytest.mark.parametrize("family", list(PLACES))
def test_attention(family: NpuFamily) -> None:
    places, score_step, weight_step = PLACES[family], 0.03, 0.003
    first = output(places, 3.3 / 127 * 0.0275 / score_step, 2)
    last = output(places, 2 * weight_step * 0.026 / 0.0125, -16)
    idle = {places["scale"]: 1, places["shift"]: 0, places["offset"]: 0}
    steps = attention_steps(family, program(idle, first, idle, last), 0, [Q, K, V], Y)
    assert steps["score_step"] == pytest.approx(score_step, rel=1e-4)
    assert steps["weight_step"] == pytest.approx(weight_step, rel=1e-4)
    assert steps["score_zero_point"] == 2


def test_a_mask_tells_the_step_of_the_scores() -> None:
    mask, factor = activation(0.0157, 127), 16447 / 2**10
    first = output(OLD, 0.0157 / (0.05 * factor), 24) | {0x4078: 10 << 16 | 16447}
    last = output(OLD, 2 * 0.003 * 0.026 / 0.0125, -16)
    steps = attention_steps(V1, program(first, last), 0, [Q, K, V, mask], Y)
    assert steps["score_step"] == pytest.approx(0.05, rel=1e-4)


def test_weights_up_to_one_have_the_step_of_one() -> None:
    """The registers tell it to 15 bits, and 1/2 is half way between two of its levels."""
    last = output(OLD, 2 / 255 * 0.026 / 0.0125, -16)
    steps = attention_steps(V1, program(output(OLD, 0.02, 2), last), 0, [Q, K, V], Y)
    assert steps["weight_step"] == np.float32(1 / 255)


def test_without_calibrated_ranges_the_input_factor_tells() -> None:
    """The mini format: q * 31578 / 32768 has no zero point."""
    bare = activation(0.025, -5)
    first = output(OLD, 0.025 / (31578 / 32768) * 0.0275 / 0.03, 2)
    first |= {0x1050: 31578 << 16 | 31578, 0x104C: 15 << 4}
    last = output(OLD, 2 * 0.003 * 0.026 / 0.0125, -16)
    steps = attention_steps(T3, program(first, last), 0, [bare, K, V], Y)
    assert steps["score_step"] == pytest.approx(0.03, rel=1e-4)


def test_attention_that_does_not_fit() -> None:
    """A softmax whose largest weight would be above 1, no stages at all, floating operands."""
    first, last = output(OLD, 0.02, 2), output(OLD, 0.05, -16)
    floating = Tensor(0, "t", DType.FLOAT16, (4, 16, 1, 12), TensorRole.ACTIVATION)
    assert attention_steps(V1, program(first, last), 0, [Q, K, V], Y) == {}
    assert attention_steps(V1, program(), 0, [Q, K, V], Y) == {}
    assert attention_steps(V1, program(first, last), 0, [floating] * 3, floating) == {}


@pytest.mark.parametrize(("family", "third"), [(T3, 1.0), (W1, 1.0), (T3, 0.0046)])
def test_product(family: NpuFamily, third: float) -> None:
    a, b, y = activation(0.0228, -7), activation(0.0268, 3), activation(0.1045, 4)
    factor = 0.0228 * 0.02765 * third / 0.1045
    scale, shift = scaled(factor)
    run = output(OLD, factor, 4) if family is T3 else {0x408C: 4, 0x4090: shift << 16 | scale}
    operands = [a, b] if third == 1 else [a, b, activation(third, -128)]
    assert product_steps(family, program(run), 0, operands, y)["b_step"] == pytest.approx(0.02765, rel=1e-3)


def test_product_whose_operand_is_symmetric_already() -> None:
    b = activation(0.0275, 0)
    steps = product_steps(T3, program(output(OLD, 0.006, 4)), 0, [Q, b], Y)
    assert steps == {"b_step": pytest.approx(0.0275 * 128 / 127)}


def test_a_calibrated_range_needs_no_registers() -> None:
    b = activation(0.0275, 3, (-3.5, 3.4))
    assert product_steps(V1, program(output(OLD, 0.006, 4)), 0, [Q, b], Y) == {}


def test_a_genuine_file() -> None:
    model = ModelFile(genuine("attention.rk3588.i8")).model
    node = next(n for n in read_graph(model).nodes if n.op == "exSDPAttention")
    assert -128 <= node.attrs["score_zero_point"] <= 127
    assert 1e-3 < node.attrs["score_step"] < 1
    assert node.attrs["weight_step"] < 1.01 / 255


def test_a_genuine_file_runs_as_in_the_simulator() -> None:
    """92 % of the bytes are equal when scores and softmax stay unrounded."""
    golden = golden_of("attention.rk3588.i8")
    with open_cpu(genuine("attention.rk3588.i8")) as context:
        found = context.infer(golden.inputs)[0]
        step = context.outputs[0].quant.scale
    assert (np.abs(found - golden.outputs[0]) < step / 2).mean() > 0.97


@pytest.mark.parametrize(
    ("family", "product", "multiplied", "added"),
    [(T3, 0x1014, {0x4070: 0x81004094}, {0x4070: 0x8002C0C0}), (W1, 0x100C, {0x404C: 0x20024928}, {0x404C: 0x20C2481C})],
)  # fmt: skip
def test_a_number_per_head_joins_behind_the_product(
    family: NpuFamily, product: int, multiplied: dict[int, int], added: dict[int, int]
) -> None:
    node = Node(index=0, op="exMatMul", name="scores", inputs=[0, 1, 2], outputs=[3])
    for behind, use in ((multiplied, "mul"), (added, "add")):
        runs = program({product: 9}, {0x5038: 0}, {product: 9}, {0x5038: 0}, behind)
        assert hidden_attributes(family, runs, node, []) == {"c_type": use}
    with pytest.raises(ModelUnsupported, match="what becomes of its third operand"):
        hidden_attributes(family, program(multiplied, {product: 9}, {0x5038: 0}), node, [])


# -- attributes that only registers hold -------------------------------------------------------------------------


def windows_of(source: tuple[int, ...], target: tuple[int, ...], *rows: int) -> dict[str, object]:
    """What a mini file says about exWindow whose runs read rows of so many elements."""
    node = Node(index=0, op="exWindow", name="cut", inputs=[0], outputs=[1])
    tensors = [
        Tensor(i, f"t{i}", DType.INT8, shape, TensorRole.ACTIVATION)
        for i, shape in enumerate((source, target))
    ]
    runs = [{0x500C: 9 << 16 | row - 1} for row in rows]
    return hidden_attributes(T3, program(*runs, {0x1014: 0}), node, tensors)


@pytest.mark.parametrize(
    ("source", "target", "row", "counts", "sizes"),
    [
        ((8, 8), (8, 8), 4, [4, 2], [2, 4]),
        ((8, 8), (8, 8), 2, [2, 4], [4, 2]),
        ((21, 40), (24, 35), 5, [3, 8], [7, 5]),
        ((24, 35), (21, 40), 5, [3, 7], [8, 5]),  # the way back: heights and numbers across change places
    ],
)
def test_windows_of_a_mini_file(
    source: tuple[int, int], target: tuple[int, int], row: int, counts: list[int], sizes: list[int]
) -> None:
    found = windows_of((1, 9, *source), (1, 9, *target), row, row)
    assert found == {"mode": "partition", "num_windows": counts, "window_sizes": sizes}


@pytest.mark.parametrize(("size", "number"), [(8, 2), (12, 3), (16, 4), (20, 5)])
def test_windows_of_every_second_row_of_a_mini_file(size: int, number: int) -> None:
    each = size // number
    found = windows_of((1, 9, size, size), (1, 9, number**2, each**2), number, 1)
    assert found == {
        "mode": "partition_num_first", "num_windows": [number] * 2, "window_sizes": [each] * 2
    }  # fmt: skip


@pytest.mark.parametrize("rows", [(3,), (4, 2), (4, 1), (1, 4), (), (9,)])
def test_rows_that_make_up_no_windows(rows: tuple[int, ...]) -> None:
    with pytest.raises(ModelUnsupported, match=r'exWindow "cut".*attributes='):
        windows_of((1, 9, 8, 8), (1, 9, 8, 8), *rows)
