"""What a comparison comes to, from made-up distances and from genuine files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_insight import Comparison, Distance, Kind, TensorError, Verdict, judge
from rknnlite_insight.comparison import distance

import rknnlite
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
    assert found.kind is Kind.IDENTICAL and found.farthest is None and not found.born and not found.largest
    assert str(found) == "Identical\nAll 2 tensors are the same on both sides, number for number."
    assert str(judge(made(tensor("a", SAME)))).splitlines()[-1] == "No output was compared."


def test_a_cosine_of_one_is_not_identical() -> None:
    for length in (None, 1e9):
        found = judge(made(tensor("a", SAME), tensor("b", Distance(1.0, 0.25), "output", length=length)))
        assert found.kind is Kind.NOISE and found.headline == "No more than rounding noise"
        assert "1 of 2 tensors differ; farthest is [Conv] b: cosine 1.00000, Euclidean 0.25." in found.lines


def test_a_difference_on_the_way() -> None:
    found = judge(made(tensor("a", Distance(0.9, 1.0)), tensor("b", SAME, "output")))
    assert found.kind is Kind.LOCAL and found.farthest is None
    assert "the outputs are identical" in found.sentence and "1 of 2 tensors differ." in found.lines


def test_noise_on_the_way() -> None:
    found = judge(made(tensor("a", Distance(0.99999, 0.004), length=1.0), tensor("b", SAME, "output")))
    assert (found.kind, found.headline, found.mood) == (Kind.OUTPUTS_IDENTICAL, "Outputs identical", "good")
    assert "the outputs are identical" in found.sentence and "1 of 2 tensors differ." in found.lines


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_number(value: float) -> None:
    found = judge(made(tensor("a", SAME), tensor("b", Distance(math.nan, value), "output")))
    assert found.kind is Kind.NOT_FINITE
    assert found.headline == "Not comparable: infinities or NaN from [Conv] b on"
    assert "1 of 2 tensors differ." in found.lines


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_the_same_infinities_are_identical(value: float) -> None:
    """Masks of transformers hold minus infinity on both sides."""
    a = np.array([1.0, value], np.float32)
    assert distance(a, a.copy()) == SAME
    assert not math.isfinite(distance(a, np.array([2.0, value], np.float32)).euclidean)


def test_the_layer_that_adds_most() -> None:
    """Not the one that is farthest: errors add up."""
    steps = (0.9999, 0.99, 0.988, 0.995, 0.985)
    tensors = [tensor(f"t{i}", Distance(cosine, 1.0), step=0.01) for i, cosine in enumerate(steps)]
    found = judge(made(*tensors, tensor("out", Distance(0.984, 2.0), "output")))
    assert found.largest[0].tensor.name == "t1" and not found.alone
    assert found.farthest is not None and found.farthest.tensor.name == "out"
    assert "the error grows most at [Conv] t1, to 14.1 %" in found.sentence


def test_layers_alone_tell_better() -> None:
    tensors = (
        tensor("a", Distance(0.9, 1.0), single=Distance(0.9999, 0.1), step=0.01),
        tensor("b", Distance(0.89, 1.0), "output", single=Distance(0.995, 0.5)),
    )
    found = judge(made(*tensors, mode="single"))
    assert found.alone and found.largest[0].tensor.name == "b"
    assert "no layer is off by more than 10 %, [Conv] b," in found.sentence


def test_the_output_that_is_farthest_is_the_one_that_the_error_is_told_of() -> None:
    """By relative error: a doubled tensor has the cosine of a perfect one."""
    doubled = tensor("twice", Distance(1.0, 5.0), "output", length=5.0)
    found = judge(made(doubled, tensor("near", Distance(0.995, 0.1), "output", length=1.0)))
    assert found.farthest is not None and found.farthest.tensor is doubled and found.outputs == 1.0
    assert "the outputs are 100 % off" in found.sentence and "farthest is [Conv] twice" in str(found)


def quantised(stored: float, in_float: float, own: bool = True) -> str:
    """The last line about an output as far away as that."""
    one = tensor(
        "out", Distance(0.9, stored), "output", to_float=SAME, reference_to_float=Distance(0.99, in_float)
    )
    return str(judge(made(one, floating="a.rknn (cpu, float)", own_float=own))).splitlines()[-1]


def test_is_it_the_quantisation() -> None:
    assert quantised(2.0, 0.5) == (
        "The rounding of activations is 75 % of the error: output out is 2 from the source network, 0.5 with the same "
        "file computed in float; the rest is weights or conversion."
    )
    assert "is 100 % of the error" in quantised(2.0, 0.0) and "the rest" not in quantised(2.0, 0.0)
    assert quantised(2.0, 2.5).startswith(
        "The rounding of activations is not the error: output out is 2 from"
    )
    assert quantised(0.0, 0.5).startswith("There is no error to explain: ")
    assert "rounding" not in quantised(2.0, 0.5, own=False), (
        "another network in float answers another question"
    )


def one_layer(in_float: float, **about: Any) -> Verdict:
    """A network whose only layer is far off, computed in float as well."""
    far, left = Distance(1 - 0.9**2 / 2, 0.9), Distance(1 - in_float**2 / 2, in_float)
    about = {"length": 1.0, "step": 0.01, "to_float": SAME, "reference_to_float": left, **about}
    return judge(made(tensor("out", far, "output", **about), floating="a.rknn (cpu, float)", own_float=True))


def test_headline_and_quantisation_do_not_contradict_each_other() -> None:
    """What computing in float takes away is quantisation's, however far off the layer; what it does not is not."""
    assert one_layer(0.85).headline == "Something is wrong from [Conv] out on"
    found = one_layer(0.01)
    assert found.kind is Kind.WRONG and found.headline == "Quantisation is wrong from [Conv] out on"
    assert not any("computes something else" in line for line in found.lines)
    lossy = Distance(0.88, 0.5)
    assert one_layer(0.01, stored=lossy).headline == "Quantisation: [Conv] out cannot hold its values"
    found = one_layer(0.85, stored=lossy)
    assert found.kind is Kind.ADDED
    assert found.headline == "Quantisation noise that adds up, most of it in weights or conversion"


def test_genuine_files(tmp_path: Path) -> None:
    """The twin has the weights of the file: what the outputs are off by is all rounding."""
    twin = write_twin(MODEL, tmp_path / "twin.onnx")
    found = judge(rknnlite.compare(MODEL, twin, INPUTS, floating=MODEL, backend="cpu"))
    assert found.kind is Kind.NOISE and found.quantisation is not None
    assert found.farthest is not None and found.quantisation.name == found.farthest.tensor.name
    assert found.quantisation.stored == found.farthest.tensor.entire.euclidean > 0
    assert found.quantisation.share > 0.99
    again = judge(rknnlite.compare(MODEL, MODEL, INPUTS, backend="cpu"))
    assert again.kind is Kind.IDENTICAL and again.quantisation is None
    assert judge(rknnlite.compare(MODEL, twin, INPUTS, floating=twin, backend="cpu")).quantisation is None
