"""What int16 and bfloat16 files leave out: told where it is a guess, read where a trace of it is left."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
from rknnlite_graph.graph import Accumulator, ConvParams, FusedOp, Graph, Node, Stage, Tensor, TensorRole
from rknnlite_graph.read import read_graph
from rknnlite_graph.reading.estimated_parameters import doubtful_sums

from rknnlite.errors import ParamInvalid
from rknnlite.formats import ModelFile
from rknnlite.tensor import DType, QuantParams
from tests.support import swept
from tests.support.corpus import DATA, genuine, goldens, open_cpu

ELU = "int16_fused.rk3588.i16"
ELU_NODE = "Conv:/elu/Conv"
FROM_REGISTERS = {
    ("dense.0026", "rk3576.i16"): 1.702,
    ("int16_elu_smaller", "rk3576.i16"): 0.7,
}


def parameters(graph: Graph) -> list[float]:
    stages = [node.stage for node in graph.nodes if node.stage is not None]
    return [parameter for stage in stages for parameter in stage.parameters]


@pytest.mark.parametrize(("case", "target"), list(FROM_REGISTERS))
def test_alpha_from_what_is_left_of_the_table(case: str, target: str) -> None:
    assert parameters(read_graph(swept.model(case, target).model)) == [FROM_REGISTERS[case, target]]


@pytest.mark.parametrize("target", ["rk3588.i16", "rk3562.i16", "rk3576.i16", "rv1126b.i16"])
def test_quick_gelu_is_told_from_silu_and_its_factor_is_a_guess(target: str) -> None:
    graph = read_graph(swept.model("dense.0026", target).model)
    (guess,) = graph.guesses
    assert (
        parameters(graph) == [1.702]
        and "alpha of its exSwish is not in the file; 1.702 is taken" in guess.fact
    )
    assert 'attributes={"ConvExSwish": {"alpha": ...}}' in guess.fact


@pytest.mark.parametrize("stem", ["bfloat_chain.rk3576.bf16", "bfloat_chain.rk3588.bf16"])
def test_plain_silu_is_no_guess(stem: str) -> None:
    graph = read_graph(ModelFile(genuine(stem)).model)
    assert 1.0 in parameters(graph) and not graph.guesses


def test_an_assumed_alpha_is_logged_once_with_node_and_value(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "rknnlite"):
        read_graph(ModelFile(genuine(ELU)).model)
    (line,) = [record.getMessage() for record in caplog.records]
    assert f'node ConvElu "{ELU_NODE}": alpha of its Elu is not in the file; 1 is taken' in line


def test_the_caller_can_give_alpha() -> None:
    (golden,) = goldens(genuine(ELU).with_suffix(".npz"))
    with open_cpu(genuine(ELU)) as context:
        plain = context.infer(golden.inputs)
    with open_cpu(genuine(ELU), extra={"attributes": {ELU_NODE: {"alpha": 1.0}}}) as context:
        assert all(np.array_equal(a, b) for a, b in zip(context.infer(golden.inputs), plain))
    with open_cpu(genuine(ELU), extra={"attributes": {"ConvElu": {"alpha": 0.3}}}) as context:
        assert any(not np.array_equal(a, b) for a, b in zip(context.infer(golden.inputs), plain))
    graph = read_graph(ModelFile(genuine(ELU)).model, attributes={ELU_NODE: {"alpha": 0.3}})
    assert 0.3 in parameters(graph) and not graph.guesses


@pytest.mark.parametrize("alpha", [None, "1", True, float("nan")])
def test_a_given_alpha_must_be_a_number(alpha: object) -> None:
    with pytest.raises(ParamInvalid, match="alpha must be a number"):
        read_graph(ModelFile(genuine(ELU)).model, attributes={ELU_NODE: {"alpha": alpha}})


def test_attributes_for_an_alpha_that_the_file_tells_are_refused() -> None:
    with pytest.raises(ParamInvalid, match="the model stores its own"):
        read_graph(
            swept.model("int16_elu_smaller", "rk3576.i16").model, attributes={"ConvElu": {"alpha": 1.0}}
        )


# -- sums of int16 layers on rk3588, rk3566, rk3568 -----------------------------------------------------------


def test_sums_at_the_limit_of_their_bias_are_told(caplog: pytest.LogCaptureFixture) -> None:
    """With a large one: what the registers say is far from what the simulator computes."""
    archive = Path(DATA / "guessed" / "int16_large_bias.tar.xz")
    members = swept.members(archive)
    with (
        caplog.at_level(logging.WARNING, "rknnlite"),
        open_cpu(ModelFile(members["rk3588.i16.rknn"])) as context,
    ):
        (found,) = context.infer(swept.arrays(archive, "in"))
    (line,) = [record.getMessage() for record in caplog.records]
    assert 'node Conv "Conv:y": its sums may be 2, 4, ... times too large' in line
    (wanted,) = swept.arrays(archive, "rk3588.i16.out")
    assert np.abs(found - wanted).max() > 0.1 * np.abs(wanted).max(), "this file would be no reason to say so"


def test_a_mean_is_known_by_its_weights() -> None:
    (guess,) = read_graph(swept.model("head.0036", "rk3588.i16").model).guesses
    assert "make a mean 2 times as large as its weights do; the weights are believed" in guess.fact


@pytest.mark.parametrize(
    ("bias", "scale", "told"), [(0.0, 2.0**-31, 1), (0.0, 2.0**-30, 0), (100.0, 2.0**-31, 0)]
)
def test_sums_in_the_finest_steps_without_a_bias_are_told(bias: float, scale: float, told: int) -> None:
    """Layers without a bias and with weights of 0.005, 0.001 and 0.0002 come out 4, 16 and 64 times too large."""
    x, y, w = (
        Tensor(i, "t", DType.INT16, (1, 4, 4, 4), TensorRole.ACTIVATION, QuantParams(1.0, 0))
        for i in range(3)
    )
    node = Node(0, "Conv", "n", [0], [1], fused=FusedOp(Accumulator.CONV), stage=Stage(scale=scale))
    conv = ConvParams(
        lambda: np.ones((4, 4, 1, 1), np.int16), (4, 4, 1, 1), True, False, False, (1, 1), (1, 1), (0, 0),
        bias=np.full(4, bias), multiplier=np.ones(4),
    )  # fmt: skip
    doubtful_sums(node, conv, x, y, w, {})
    assert len(node.doubts) == told
