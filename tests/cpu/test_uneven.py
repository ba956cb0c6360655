"""What square kernels, many channels and slopes per channel hide: kernels, strides and pads that differ by direction,
single channels, scales and slopes that all channels share. Every file is the vendor's, for seven families of SoCs.

Each of these layers was once computed wrong without a word.
"""

from __future__ import annotations

import numpy as np
import pytest

from rknnlite.formats import ModelFile
from tests.support import swept
from tests.support.corpus import DATA, open_cpu

ARCHIVE = DATA / "uneven.tar.xz"
SOCS = ("rk3588", "rk3568", "rk3562", "rk3576", "rv1126b", "rv1106", "rv1103b")


STEMS = swept.stems(ARCHIVE)
"""``case/soc.type`` of every file."""


def model(stem: str) -> ModelFile:
    return ModelFile(swept.members(ARCHIVE)[f"{stem}.rknn"])


def fed_and_answered(stem: str) -> tuple[list[np.ndarray], np.ndarray]:
    (answer,) = swept.arrays(ARCHIVE, f"{stem}.out")
    return swept.arrays(ARCHIVE, f"{stem.partition('/')[0]}/in"), answer


@pytest.mark.parametrize("stem", STEMS)
def test_against_the_simulator(stem: str) -> None:
    inputs, answer = fed_and_answered(stem)
    with open_cpu(model(stem)) as context:
        (found,) = context.infer(inputs)
        quant = context.outputs[0].quant
    assert quant is not None
    off = np.abs(np.rint((found.astype(np.float64) - answer) / quant.scale))
    apart = "+" in stem  # the simulator may round before the function, too
    assert off.max() <= (2 if apart else 1), f"{off.max():.0f} LSB off"
    assert (off == 0).mean() >= (0.4 if apart else 0.99)


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("case", ["deconv_tall_s21", "one_channel", "one_channel+leaky", "conv+prelu_shared"])
def test_every_family_has_each_defect(case: str, soc: str) -> None:
    assert f"uneven_{case}/{soc}.i8" in STEMS


@pytest.mark.parametrize(("case", "least", "most"), [("above", 0.1, 0.9), ("below", -1.0, -0.1)])
def test_limits_of_a_clip_in_float(case: str, least: float, most: float) -> None:
    """Zero is not between the limits, so the range of the output does not tell both."""
    for stem in [stem for stem in STEMS if f"clip_{case}" in stem]:
        inputs, _ = fed_and_answered(stem)
        with open_cpu(model(stem), extra={"fidelity": "float"}) as context:
            (found,) = context.infer(inputs)
        assert found.min() == pytest.approx(least, abs=2e-3) and found.max() == pytest.approx(
            most, abs=2e-3
        ), stem
