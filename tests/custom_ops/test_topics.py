"""examples/custom_op/topics beside the simulator's answers: attributes, shapes, results in place, whole numbers."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_rknnrt.customop import stored

import rknnlite
from rknnlite.formats import ModelFile
from rknnlite.spi import CustomOpFailed
from rknnlite.tensor import QuantParams
from tests.support.corpus import EXAMPLES

from .models import DATA, DUAL, PROBE, FullDual, Probe, dual_golden, probe_golden

TOPICS = EXAMPLES / "custom_op" / "topics"


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """``topic("shapes")``: the module of that example."""
    monkeypatch.syspath_prepend(str(TOPICS))
    return importlib.import_module


@pytest.mark.parametrize("language", ["python", "c", "c, isolated"])
@pytest.mark.parametrize(
    ("name", "operator", "source"), [("attributes", "cstSteps", "steps"), ("shapes", "cstTurn", "turn")]
)
def test_attributes_and_shapes(
    name: str, operator: str, source: str, language: str, topic: Any, compiled: Callable[..., Path]
) -> None:
    if language == "python":
        op = getattr(topic(name), operator)()
    else:
        library = compiled(TOPICS / f"librkcst_{source}.c", "-lm")
        (op,) = rknnlite.load_custom_ops(library, isolate="isolated" in language)
    answers = np.load(DATA / f"topics_{name}.npz")
    with rknnlite.open(TOPICS / f"{name}_for_RK3588.rknn", custom_ops=[op]) as context:
        for run in [n[1:] for n in answers.files if n.startswith("x")]:
            (y,) = context.infer([answers[f"x{run}"]])
            assert np.allclose(y, answers[f"y{run}"], rtol=2**-10, atol=1e-4)


def test_in_place_is_what_returned_arrays_are(topic: Any) -> None:
    answers = []
    for op in (topic("in_place").InPlace(), FullDual()):
        with rknnlite.open(DUAL, custom_ops=[op]) as context:
            answers.append(context.infer(dual_golden().inputs))
    assert all(np.array_equal(a, b) for a, b in zip(*answers))


def test_whole_numbers_are_within_a_step_of_the_simulator(topic: Any) -> None:
    with rknnlite.open(DUAL, custom_ops=[topic("int8").Int8()]) as context:
        answers = context.infer(dual_golden().inputs)
        for answer, expected, attr in zip(answers, dual_golden().outputs, context.outputs):
            assert np.abs(answer - expected).max() <= 1.01 * attr.quant.scale


def test_scale_and_zero_point_are_told_of_integers_alone() -> None:
    """Of the file, and to an operator in Python by every backend: librknnrt itself tells none."""
    op = FullDual()
    seen: dict[str, Any] = {}
    op.init = lambda ctx, inputs, outputs: (  # type: ignore[method-assign]
        seen.update({attr.name: attr.quant for attr in (*ctx.inputs, *ctx.outputs)}),
        FullDual.init(op, ctx, inputs, outputs),
    )[1]
    with rknnlite.open(DUAL, custom_ops=[op], backend="cpu") as context:
        context.infer(dual_golden().inputs)
    assert sorted(seen) == ["difference", "l", "lr", "r"]
    assert all(isinstance(quant, QuantParams) for quant in seen.values())
    of_file = stored(ModelFile(DUAL))
    assert {name: of_file.get(name) for name in seen} == seen
    assert not stored(ModelFile(PROBE))
    with rknnlite.open(PROBE, custom_ops=[Probe()]) as context:
        context.infer(probe_golden().inputs)


def test_an_operator_in_whole_numbers_says_what_it_is_for(topic: Any) -> None:
    class Elsewhere(topic("int8").Int8):  # type: ignore[misc]
        op_type = "cstSteps"

    with pytest.raises(CustomOpFailed, match="is for models in int8"):
        rknnlite.open(TOPICS / "attributes_for_RK3588.rknn", custom_ops=[Elsewhere()]).close()
