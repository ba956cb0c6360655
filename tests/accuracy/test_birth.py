"""Where an error is born."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rknnlite
from rknnlite.accuracy import Distance, TensorError
from rknnlite.accuracy.birth import Verdict, find_birth
from rknnlite.spi.dumps import Dump
from tests.support.corpus import genuine, golden_of, open_cpu

ELEMENTS = 100
TWO = "two_images.rk3588.i8"
MODEL, INPUTS = genuine(TWO), golden_of(TWO).inputs


def tensor(
    name: str, entire: float, own: float | None = None, step: float | None = 0.01, **about: Any
) -> TensorError:
    """A tensor of length 1 with these relative errors; as many steps as its error is in percent, divided by ten."""

    def away(share: float) -> Distance:
        return Distance(1 - share**2 / 2, share)

    fields: dict[str, Any] = {"role": "activation", **about}
    return TensorError(
        name, "Conv", (1, ELEMENTS), fields["role"], away(entire),
        None if own is None else away(own), length=1.0, step=step,
    )  # fmt: skip


def network(*owns: float, entire: float = 0.05, **about: Any) -> list[TensorError]:
    rows = [tensor(f"t{i}", entire, own, **about) for i, own in enumerate(owns)]
    return [tensor("in", 0.001, 0.001, role="input"), *rows, tensor("out", entire, 0.01, role="output")]


def test_identical() -> None:
    found = find_birth([tensor("in", 0, 0), tensor("out", 0, 0)])
    assert (found.verdict, found.headline) == (Verdict.IDENTICAL, "Identical")
    assert "All 2 tensors are the same" in found.sentence and not found.born


def test_noise_names_the_layer_that_errs_most() -> None:
    found = find_birth(network(0.01, 0.02, 0.012, 0.08, 0.01, 0.011))
    assert found.verdict is Verdict.NOISE and found.headline == "Quantisation noise"
    assert [layer.tensor.name for layer in found.born] == ["t3"]
    assert "no layer is off by more than 8 % (0.8 steps), the typical one by 1.1 %" in found.sentence
    assert "the outputs are 5 % off" in found.sentence


def test_one_layer_is_wrong() -> None:
    found = find_birth(network(0.01, 0.02, 0.9, 0.01, 0.01, entire=0.7))
    assert found.verdict is Verdict.WRONG and found.headline == "Something is wrong from [Conv] t2 on"
    assert "[Conv] t2 is off by 90 % (9 steps), 90 times the typical layer" in found.sentence
    assert "the outputs are 70 % off" in found.sentence


def test_a_layer_that_nobody_behind_it_notices() -> None:
    """Two sides may mean different values by one name; the outputs agree all the same."""
    found = find_birth(network(0.01, 0.9, 0.01, 0.01))
    assert found.verdict is Verdict.LOCAL and found.headline == "[Conv] t1 differs, the outputs do not"


def test_noise_that_adds_up() -> None:
    found = find_birth(network(*[0.04] * 20, entire=0.3))
    assert found.verdict is Verdict.ADDED and found.headline == "Quantisation noise that adds up"


def test_all_layers_bad_are_not_the_typical_noise() -> None:
    assert find_birth(network(*[0.8] * 6, entire=0.8)).verdict is Verdict.WRONG


def test_a_step_explains_a_large_error_of_small_values() -> None:
    coarse = tensor("coarse", 0.3, 0.3, step=0.1)  # 0.3 steps
    assert find_birth([*network(0.01, 0.01)[:-1], coarse]).verdict is Verdict.ADDED


def test_float_networks_are_measured_by_a_finer_rule() -> None:
    rows = [tensor(f"t{i}", 0.03, own, step=None) for i, own in enumerate((0.0003, 0.0004, 0.03, 0.0003))]
    found = find_birth([*rows, tensor("out", 0.03, 0.0004, step=None, role="output")])
    assert found.verdict is Verdict.WRONG and not found.quantised
    calm = find_birth([tensor("t", 0.001, 0.0005, step=None)])
    assert calm.headline == "Rounding noise"


def test_without_single_errors_the_first_jump_counts() -> None:
    rows = [tensor(f"t{i}", entire) for i, entire in enumerate((0.01, 0.02, 0.6, 0.7))]
    found = find_birth(rows)
    assert found.verdict is Verdict.WRONG and found.born[0].tensor.name == "t2"
    assert "large for the first time at [Conv] t2: 60 %" in found.sentence and found.typical is None
    calm = find_birth(rows[:2])
    assert calm.headline == "No more than quantisation noise" and "mode single tells" in calm.sentence


def test_inputs_that_differ() -> None:
    found = find_birth([tensor("in", 0.6, 0.6, role="input"), tensor("out", 0.5, 0.01, role="output")])
    assert found.verdict is Verdict.WRONG and "differs before any layer has run" in found.sentence


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_is_wrong(bad: float) -> None:
    row = TensorError("t", "Conv", (1, 4), "output", Distance(bad, bad), Distance(bad, bad), length=1.0)
    found = find_birth([tensor("a", 0.01, 0.01), row])
    assert found.verdict is Verdict.WRONG and "more than can be told" in found.sentence


def test_a_comparison_knows_lengths_and_steps(tmp_path: Path) -> None:
    with open_cpu(MODEL) as context:
        context.infer(INPUTS)
        dump = context.dump(tmp_path / "own")
    with open_cpu(MODEL, extra={"fidelity": "float"}) as context:
        found = rknnlite.compare(MODEL, context, INPUTS, "single", backend="cpu")
        context.infer(INPUTS)
        golden = context.dump(tmp_path / "float")
    for row in found.tensors:
        assert row.length == pytest.approx(float(np.linalg.norm(golden.value(row.name).astype(float))))
        assert row.step == dump.entry(row.name).scale
    assert find_birth(found.tensors).verdict is Verdict.NOISE
    same = rknnlite.compare(dump, Dump.read(tmp_path / "own"))
    assert find_birth(same.tensors).verdict is Verdict.IDENTICAL


def test_a_spoiled_layer_is_found(tmp_path: Path) -> None:
    """A dump in which one layer was doubled, and all that follow it as they were: it differs, the outputs do not."""
    with open_cpu(MODEL) as context:
        context.infer(INPUTS)
        dump = context.dump(tmp_path / "own")
    spoiled = next(t for t in dump.tensors if t.role == "activation")
    np.save(dump.folder / spoiled.file, 2 * dump.value(spoiled.name))
    found = find_birth(rknnlite.compare(MODEL, dump, INPUTS, backend="cpu").tensors)
    assert found.verdict is Verdict.LOCAL and found.born[0].tensor.name == spoiled.name
