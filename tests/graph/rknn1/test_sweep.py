"""One network per operator of the first toolkit, made here, against the outputs of the chip maker's simulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rknnlite_graph.read import read_graph

from rknnlite.errors import ParamInvalid
from tests.support.rknn1_files import File
from tools.sweep1.answers import answer, nearness
from tools.sweep1.kinds import KINDS
from tools.sweep1.networks import NETWORKS
from tools.sweep1.sequences_and_regions import CASES as SINGLE

CASES = {**SINGLE, **NETWORKS, **KINDS}

with np.load(Path(__file__).with_name("sweep.npz")) as _stored:
    STORED = {name: _stored[name] for name in _stored.files}
ANSWERS: dict[str, list[np.ndarray]] = {}
for _key in sorted(STORED):
    ANSWERS.setdefault(_key.rpartition(".")[0], []).append(STORED[_key])

STEPS = {
    "square": 0.96, "log": 0.97, "erf": 0.99, "leaky_relu": 0.99, "tanh_scaled": 0.99, "elu": 0.99, "elu_alpha": 0.99,
    "swish": 0.99, "mish": 0.99, "conv_relu6": 0.96, "conv_clip": 0.99, "lstm": 0.96,
    "sigmoid_i16": 0.97, "tanh_i16": 0.99, "swish_i16": 0.98, "leaky_relu_i16": 0.99, "elu_i16": 0.98, "mish_i16": 0.98,
    "resize_bilinear_uneven": 0.98, "resize_bilinear_align_uneven": 0.97, "net_residual": 0.83,
    "net_lstm": 0.8, "net_identity": 0.5, "gru_before": 0.73, "gru_before_i8": 0.84,
}  # fmt: skip
"""Functions that the simulator computes a little otherwise, and differences of two results: the share of equal elements; the rest
is one step away."""
HALVES = {
    "sigmoid_f16": 0.98, "tanh_f16": 0.98, "swish_f16": 0.98, "elu_f16": 0.99, "softmax_rank2": 0.5,
    "avg_pool_f16": 0.99, "lstm_f16": 0.5, "gru_f16": 0.6, "gru_before_f16": 0.48, "net_gru": 0.7,
}  # fmt: skip
"""The same for float16, where the rest is at most 0.001 away."""
FURTHER = {
    "net_unet": (0.96, 2),
    "gru": (0.68, 2),
    "gru_last": (0.5, 2),
    "gru_before_i16": (0.11, 12),
    "roi_pool_f16": (0.99, 0.3),
}
"""Shares and largest differences: a CONCAT to another scale before a SIGMOID; states that the simulator rounds at each step."""
DOUBTED = ("gru_i8", "gru_i16", "rnn_tanh_f16", "deconv_square")
"""Whose simulator is not followed, and that has a doubt."""
_EQUAL = sorted(set(ANSWERS) - {*STEPS, *HALVES, *FURTHER, *DOUBTED})


def made(name: str) -> tuple[File, list[np.ndarray]]:
    """The file of a case and what the CPU reference makes of it."""
    file = CASES[name]()
    return file, answer(file.data, file.stored_inputs())


@pytest.mark.parametrize("name", _EQUAL)
def test_equal_to_the_simulator(name: str) -> None:
    assert nearness(made(name)[1], ANSWERS[name]).equal == 1


@pytest.mark.parametrize("name", sorted(STEPS))
def test_within_a_step(name: str) -> None:
    found = nearness(made(name)[1], ANSWERS[name])
    assert found.most <= 1 and found.equal >= STEPS[name], str(found)


@pytest.mark.parametrize("name", sorted(HALVES))
def test_within_a_rounding_of_float16(name: str) -> None:
    found = nearness(made(name)[1], ANSWERS[name])
    assert found.most <= 0.001 and found.equal >= HALVES[name], str(found)


@pytest.mark.parametrize("name", sorted(FURTHER))
def test_further(name: str) -> None:
    found, (share, most) = nearness(made(name)[1], ANSWERS[name]), FURTHER[name]
    assert found.most <= most and found.equal >= share, str(found)


@pytest.mark.parametrize("name", DOUBTED)
def test_doubted(name: str) -> None:
    from rknnlite.formats import ModelFile

    facts = [guess.fact for guess in read_graph(ModelFile(CASES[name]().data).model).guesses]
    assert facts and all("the chip maker's simulator" in fact for fact in facts)


def test_the_order_of_square_weights_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shape (O, I) or (I, O) tells it in other cases, which are equal."""
    monkeypatch.setenv("RKNNLITE_RKNN1_DECONVOLUTION", "oi")
    file, found = made("deconv_square")
    assert nearness(found, ANSWERS["deconv_square"]).equal == 1
    monkeypatch.setenv("RKNNLITE_RKNN1_DECONVOLUTION", "ab")
    with pytest.raises(ParamInvalid, match="must be one of io, oi"):
        answer(file.data, file.stored_inputs())


def test_the_tables_name_what_is_stored() -> None:
    named = {*STEPS, *HALVES, *FURTHER, *DOUBTED}
    assert named <= set(ANSWERS), named - set(ANSWERS)
    assert len(_EQUAL) > 85


def test_whose_simulator_is_not_followed_has_a_doubt() -> None:
    """Grouped convolutions differ there; whoever runs one is told."""
    from rknnlite.formats import ModelFile

    (guess,) = read_graph(ModelFile(CASES["conv_groups"]().data).model).guesses
    assert "gives every group the channels of the first one" in guess.fact
