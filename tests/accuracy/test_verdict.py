"""What a comparison comes to, from made-up distances and from genuine files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import rknnlite
from rknnlite.accuracy import Comparison, Distance, Kind, TensorError, judge
from tests.support.corpus import genuine, golden_of
from tests.support.onnx_twin import write_twin

TWO = "two_images.rk3588.i8"
MODEL = genuine(TWO)
INPUTS = golden_of(TWO).inputs
SAME = Distance(1.0, 0.0)


def tensor(name: str, entire: Distance, role: str = "internal", **more: Any) -> TensorError:
    return TensorError(name, "Conv", (1, 4), role, entire, **more)


def made(*tensors: TensorError, **more: Any) -> Comparison:
    return Comparison("a.rknn (cpu, npu)", "a.onnx", more.pop("mode", "entire"), tensors, **more)


def test_identical() -> None:
    found = judge(made(tensor("a", SAME), tensor("b", SAME, "output")))
    assert found.kind is Kind.IDENTICAL and found.worst is found.born is None
    assert str(found) == "identical: all values of 2 tensors"
    assert str(judge(made(tensor("a", SAME)))) == "identical: all values of 1 tensors; no output was compared"


def test_a_cosine_of_one_is_not_identical() -> None:
    found = judge(made(tensor("a", SAME), tensor("b", Distance(1.0, 0.25), "output")))
    assert found.kind is Kind.DIFFERENT
    assert str(found) == "different: 1 of 2 tensors; farthest is [Conv] b: cosine 1.00000, Euclidean 0.25"


def test_a_difference_on_the_way() -> None:
    found = judge(made(tensor("a", Distance(0.9, 1.0)), tensor("b", SAME, "output")))
    assert found.kind is Kind.OUTPUTS_IDENTICAL
    assert str(found) == "outputs identical; 1 of 2 tensors differ on the way"


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_number(value: float) -> None:
    found = judge(made(tensor("a", SAME), tensor("b", Distance(math.nan, value), "output")))
    assert found.kind is Kind.NOT_FINITE
    assert str(found) == "not comparable: infinities or NaN make distances of 1 of 2 tensors no numbers"


def test_the_layer_that_adds_most() -> None:
    """Not the one that is farthest: errors add up."""
    steps = (0.9999, 0.99, 0.988, 0.995, 0.985)
    tensors = [tensor(f"t{i}", Distance(cosine, 1.0)) for i, cosine in enumerate(steps)]
    found = judge(made(*tensors, tensor("out", Distance(0.984, 2.0), "output")))
    assert found.born is not None and found.born.name == "t1" and not found.alone
    assert found.worst is not None and found.worst.name == "out"
    assert found.origin == "most of it is born in [Conv] t1: cosine 0.99000 after it"


def test_layers_alone_tell_better() -> None:
    tensors = (
        tensor("a", Distance(0.9, 1.0), single=Distance(0.999, 0.1)),
        tensor("b", Distance(0.89, 1.0), "output", single=Distance(0.95, 0.5)),
    )
    found = judge(made(*tensors, mode="single"))
    assert found.alone and found.origin == "most of it is born in [Conv] b: cosine 0.95000 computed alone"


def quantised(stored: float, in_float: float, own: bool = True) -> str:
    """The last line about an output as far away as that."""
    one = tensor(
        "out", Distance(0.9, stored), "output", to_float=SAME, reference_to_float=Distance(0.99, in_float)
    )
    return str(judge(made(one, floating="a.rknn (cpu, float)", own_float=own))).splitlines()[-1]


def test_is_it_the_quantisation() -> None:
    assert quantised(2.0, 0.5) == (
        "the rounding of activations is 75 % of the error: output out is 2 from the source network, 0.5 with the same "
        "file computed in float; the rest is weights or conversion"
    )
    assert "is 100 % of the error" in quantised(2.0, 0.0) and "the rest" not in quantised(2.0, 0.0)
    assert quantised(2.0, 2.5).startswith(
        "the rounding of activations is not the error: output out is 2 from"
    )
    assert quantised(0.0, 0.5).startswith("there is no error to explain: ")
    assert "rounding" not in quantised(2.0, 0.5, own=False), (
        "another network in float answers another question"
    )


def test_genuine_files(tmp_path: Path) -> None:
    """The twin has the weights of the file: what the outputs are off by is all rounding."""
    twin = write_twin(MODEL, tmp_path / "twin.onnx")
    found = judge(rknnlite.compare(MODEL, twin, INPUTS, floating=MODEL, backend="cpu"))
    assert found.kind is Kind.DIFFERENT and found.quantisation is not None
    assert found.worst is not None and found.quantisation.name == found.worst.name
    assert found.quantisation.stored == found.worst.entire.euclidean > 0
    assert found.quantisation.share > 0.99
    again = judge(rknnlite.compare(MODEL, MODEL, INPUTS, backend="cpu"))
    assert again.kind is Kind.IDENTICAL and again.quantisation is None
    assert judge(rknnlite.compare(MODEL, twin, INPUTS, floating=twin, backend="cpu")).quantisation is None
