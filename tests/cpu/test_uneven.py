"""What square kernels, many channels and slopes per channel hide: kernels, strides and pads that differ by direction,
single channels, scales and slopes that all channels share. Every file is the vendor's, for seven families of SoCs.

Each of these layers was once computed wrong without a word.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest

from tests.support.corpus import DATA, goldens, open_cpu
from tests.support.packed import packed

ARCHIVES = ("uneven_transposed", "uneven_shared", "uneven_slopes", "uneven_limits")
SOCS = ("rk3588", "rk3568", "rk3562", "rk3576", "rv1126b", "rv1106", "rv1103b")


def stems(archive: str) -> list[tuple[str, str]]:
    """(archive, file without suffix)."""
    with tarfile.open(DATA / f"{archive}.tar.xz") as tar:
        return sorted((archive, Path(name).stem) for name in tar.getnames() if name.endswith(".rknn"))


STEMS = [found for archive in ARCHIVES for found in stems(archive)]


@pytest.mark.parametrize(("archive", "stem"), STEMS, ids=[stem for _, stem in STEMS])
def test_against_the_simulator(archive: str, stem: str) -> None:
    folder = packed(archive)
    (golden,) = goldens(folder / f"{stem}.npz")
    with open_cpu(folder / f"{stem}.rknn") as context:
        (found,) = context.infer(golden.inputs)
        quant = context.outputs[0].quant
    assert quant is not None
    off = np.abs(np.rint((found.astype(np.float64) - golden.outputs[0]) / quant.scale))
    apart = "+" in stem  # the simulator may round before the function, too
    assert off.max() <= (2 if apart else 1), f"{off.max():.0f} LSB off"
    assert (off == 0).mean() >= (0.4 if apart else 0.99)


@pytest.mark.parametrize("archive", ARCHIVES[:3])
def test_every_family_is_there(archive: str) -> None:
    for soc in SOCS:
        assert sum(f".{soc}." in stem for _, stem in stems(archive)) >= 4
