"""Files that the converter gets wrong: what of them can be computed, and what the log says of the rest."""

from __future__ import annotations

import logging
import re

import numpy as np
import pytest
from rknnlite_graph.read import read_graph

from rknnlite.errors import ModelUnsupported
from tests.support.corpus import open_cpu
from tests.support.swept import FLAWED, arrays, model

LONG = [
    ("long_kernel", "rk3588.i8", "1x23"),
    ("long_kernel", "rk3588.fp16", "1x23"),
    ("long_kernel", "rk3576.i8", "1x23"),
    ("long_kernel", "rv1103b.i8", "1x23"),
    ("long_deconv", "rk3588.i8", "1x0"),
]


def simulated(case: str, target: str) -> tuple[list[np.ndarray], np.ndarray]:
    archive = FLAWED / f"{case}.tar.xz"
    return arrays(archive, "in"), arrays(archive, f"{target}.out")[0]


@pytest.mark.parametrize(("case", "target", "held"), LONG)
def test_a_kernel_too_large_for_its_registers(case: str, target: str, held: str) -> None:
    """The commands are for another kernel; weights and everything else are whole."""
    for fidelity in ("npu", "table"):
        with pytest.raises(
            ModelUnsupported, match=f"kernel of {held}, its weight is 1x.*fidelity='float'.*smaller kernel"
        ):
            open_cpu(model(case, target, FLAWED), extra={"fidelity": fidelity})
    inputs, wanted = simulated(case, target)
    with open_cpu(model(case, target, FLAWED), extra={"fidelity": "float"}) as context:
        (found,) = context.infer(inputs)
    assert np.abs(found - wanted).max() < (2e-3 if target.endswith("fp16") else 0.05)
    assert np.corrcoef(found.ravel(), wanted.ravel())[0, 1] > 0.9995


@pytest.mark.parametrize("target", ["rk3588.i8", "rv1106.i8"])
def test_lost_channels_are_those_that_the_simulator_shows(target: str) -> None:
    inputs, wanted = simulated("silent_channels", target)
    with open_cpu(model("silent_channels", target, FLAWED)) as context:
        (found,) = context.infer(inputs)
        quant = context.outputs[0].quant
    assert quant is not None
    off = np.abs(found - wanted).max(axis=(0, 2, 3)) / quant.scale
    assert (off[:2] < 0.5).all() and (off[2:] > 5).all()


def test_a_line_at_loading(caplog: pytest.LogCaptureFixture) -> None:
    """One line for a file, however often it is opened."""
    file = model("silent_channels", "rk3588.i8", FLAWED)
    with caplog.at_level(logging.INFO, "rknnlite"):
        for _ in range(3):
            open_cpu(file).close()
    (line,) = [record for record in caplog.records if "multipliers" in record.message]
    assert line.levelno == logging.WARNING
    assert '6 channels of Conv "Conv:/2/Conv"' in line.message and "info --check" in line.message


def test_no_warning_where_nothing_is_seen(caplog: pytest.LogCaptureFixture) -> None:
    """For rk3566 the converter fits the weights to their multipliers: the simulator computes the same."""
    file = model("silent_channels", "rk3566.i8", FLAWED)
    assert read_graph(file.model).has_coarse
    inputs, wanted = simulated("silent_channels", "rk3566.i8")
    with caplog.at_level(logging.INFO, "rknnlite"), open_cpu(file) as context:
        (found,) = context.infer(inputs)
    assert np.array_equal(found, wanted)
    (line,) = [record for record in caplog.records if "multipliers" in record.message]
    assert line.levelno == logging.INFO and "none of which changes what comes out" in line.message


@pytest.mark.parametrize(
    ("case", "target", "told"),
    [
        (
            "silu_after_quick_gelu",
            "rv1106.i8",
            r"its table is of x \* sigmoid\(1\.702 \* x\), but .* ends at -0\.27",
        ),
        ("elu_after_another", "rk3588.i8", r"its table is of Elu with alpha 0\.3, but .* ends at -0\.9"),
    ],
)
def test_a_table_of_another_layer(case: str, target: str, told: str) -> None:
    """The file has the first layer's table twice: so has a board, while the simulator computes what the network says."""
    inputs, wanted = simulated(case, target)
    file = model(case, target, FLAWED)
    (guess,) = [guess for guess in read_graph(file.model).guesses if "its table is of" in guess.fact]
    assert re.search(told, guess.fact)
    with open_cpu(file) as context:
        (found,) = context.infer(inputs)
        quant = context.outputs[0].quant
    assert quant is not None
    assert np.abs(found - wanted).max() > 5 * quant.scale


@pytest.mark.parametrize(
    ("target", "left_out"), [("rk3576.i8", True), ("rv1103b.i8", True), ("rk3588.i8", False)]
)
def test_a_bias_that_commands_leave_out(target: str, left_out: bool) -> None:
    """Added as the simulator does (tests/cpu/test_swept.py), and told."""
    guesses = read_graph(model("correlation_bias_relu", target).model).guesses
    assert any("leave its bias out" in guess.fact for guess in guesses) == left_out
