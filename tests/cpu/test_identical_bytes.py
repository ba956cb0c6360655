"""Cases of tools/sweep where every byte is the simulator's: what decides the last bit of a layer."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from rknnlite_graph.activation_tables import elu_alpha, hard_sigmoid_line
from rknnlite_graph.operators import TABLE_FUNCTIONS
from rknnlite_graph.unary_functions import hard_sigmoid

import rknnlite
from rknnlite.tensor import DType
from tests.custom_ops.models import DUAL, PlainDual
from tests.support.corpus import open_cpu
from tests.support.swept import FOLDER, arrays, model

CASES = {
    "binary.0004": ("rk3588.i8", "rv1106.i8"),  # Max on the CPU: floats rounded to the step in the file
    "lstm_states": ("rk3588.i8",),  # the recurrent weights count in steps of the initial state
    "lstm_shifted": ("rk3588.i8", "rv1103b.i8"),  # a bias beyond 32 bits: sums are shifted before it is added
    "recurrent.0011": ("rv1103b.i8",),  # LSTM of a CPU: one step for all float weights
    "pool.0011": ("rk3588.i8",),  # means of int8 values are ties: the order of the sum decides
    "resize.0012": ("rk3588.i8",),  # the same of four corners
}


@pytest.mark.parametrize(("case", "target"), [(case, target) for case in CASES for target in CASES[case]])
def test_all_bytes_are_the_simulators(case: str, target: str) -> None:
    archive = FOLDER / f"{case}.tar.xz"
    with open_cpu(model(case, target)) as context:
        found = context.infer(arrays(archive, "in"))
        steps = [attr.quant.scale if attr.quant else 1.0 for attr in context.outputs]
    for mine, simulated, step in zip(found, arrays(archive, f"{target}.out"), steps):
        assert np.array_equal(np.rint(mine / step), np.rint(simulated / step))


def test_the_slope_of_a_hard_sigmoid_is_the_number_that_its_16_bits_stand_for() -> None:
    """Alpha 0.2 over [-2.5, 2.5]: each result lies between two steps, as the simulator has them."""
    step, result_step = np.float32(0.019607843831181526), np.float32(0.003921568859368563)
    alpha, beta = hard_sigmoid_line(128.5 / float(step), 0.0)
    assert (alpha, beta) == (0.2, 0.5)
    stored = np.float32([-108, -62, -39, -38, -30, 71, 72])
    results = np.rint(hard_sigmoid(stored * step, alpha, beta) / result_step) - 128
    assert results.tolist() == [-109, -63, -40, -38, -31, 70, 71]


def test_a_line_that_is_no_short_number_stays_as_it_was_read() -> None:
    assert hard_sigmoid_line(7189.0, 128.5) == (7189 / 32768, 0.5 + 128.5 / 32768)
    assert hard_sigmoid_line(7187.3, 0.0) == (7187.3 / 32768, 0.5)


def test_alpha_of_a_fused_elu_is_read_to_four_places() -> None:
    x = (32 * np.arange(513) - 16384) / 3276.8
    assert (
        elu_alpha(np.trunc(32768 * 0.8825 * np.exp(x) - 32768), TABLE_FUNCTIONS["Elu"].index_units) == 0.8825
    )


@pytest.mark.parametrize("engine", ["numpy", "onnxruntime"])
def test_no_integer_is_a_negative_zero(monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    """Engines leave zeros of either sign; what they stand for is one integer, and the vendor's float of it is 0.0."""
    if engine == "onnxruntime":
        pytest.importorskip("onnxruntime")
    monkeypatch.setenv("RKNNLITE_ENGINE", engine)
    images = [np.random.default_rng(i).integers(0, 256, (1, 32, 32, 3)).astype(np.uint8) for i in range(2)]
    with rknnlite.open(DUAL, backend="cpu", custom_ops=[PlainDual()]) as context:
        outputs = context.infer(images)
    with rknnlite.open(DUAL, backend="cpu", custom_ops=[PlainDual()]) as context:
        for attr, image in zip(context.native_inputs, images):
            mem = context.create_mem(image.nbytes)
            mem.ndarray[:] = image.ravel()
            context.bind(dataclasses.replace(attr, dtype=DType.UINT8), mem)
        results = [context.create_mem(attr.n_elems * 4) for attr in context.outputs]
        for attr, mem in zip(context.outputs, results):
            context.bind(dataclasses.replace(attr, dtype=DType.FLOAT32), mem)
        context.run()
        bound = [np.frombuffer(mem.ndarray, np.float32).copy() for mem in results]
    for values, same in zip(outputs, bound):
        assert np.array_equal(values.ravel(), same) and (values == 0).any()
        assert not np.signbit(values[values == 0]).any() and not np.signbit(same[same == 0]).any()
