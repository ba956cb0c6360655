"""Differences from the simulator that are proven to be no errors, and errors that must not be."""

from __future__ import annotations

import io
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rknnlite.formats import ModelFile
from tests.support.corpus import DATA, ROOT, open_cpu

TARGET = "rk3588.i8"


@pytest.fixture
def sweep(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The modules ``judge`` and ``proof`` of the sweep, which is no package."""
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "sweep"))
    kept = {name: sys.modules.pop(name, None) for name in ("judge", "proof")}
    import judge
    import proof

    yield judge, proof
    for name, module in kept.items():
        sys.modules.pop(name, None)
        if module is not None:
            sys.modules[name] = module


def opened(name: str) -> dict[str, bytes]:
    with tarfile.open(Path(DATA / "proofs" / f"{name}.tar.xz")) as tar:
        return {info.name: tar.extractfile(info).read() for info in tar}  # type: ignore[union-attr]


def proven(sweep: Any, name: str, damage: Any = lambda y: y, target: str = TARGET) -> Any:
    """The proof of an archived case whose only output went through ``damage``."""
    judge, proof = sweep
    members = opened(name)
    read = lambda key: np.load(io.BytesIO(members[key]))  # noqa: E731
    wanted, truth = read(f"{target}.out0.npy"), read("ref0.npy")
    with open_cpu(ModelFile(members[f"{target}.rknn"])) as context:
        found = damage(context.infer([read("in0.npy")])[0])
        step = context.outputs[0].quant.scale
        verdict = judge.compare(found, wanted, step, True, judge.Judge.FUSED, truth)
        assert not verdict.matches, "the case is of no use for this test"
        return proof.prove(context, [found], [wanted], [truth], [verdict])


def test_nearer_to_the_float_network(sweep: Any) -> None:
    """A product of two convolutions: the simulator rounds the first one, the file does not."""
    assert proven(sweep, "combined.0028").name == "NEARER"


@pytest.mark.parametrize("name", ["arithmetic.0008", "chain.0010"])
def test_roundings_that_the_file_makes_alone(sweep: Any, name: str) -> None:
    assert proven(sweep, name).name == "ROUNDING"


def test_layers_that_the_simulator_joins(sweep: Any) -> None:
    """A fully connected layer and HardSwish, two layers in the file: values of the run leave the range between them."""
    assert proven(sweep, "activated.0040", target="rv1103b.i8").name == "JOINED"


def test_values_that_the_file_cuts_off(sweep: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same by a weaker proof: with a wider range between the two layers it matches."""
    monkeypatch.setattr(sweep[1], "_joined", lambda *given: False)
    monkeypatch.setattr(sweep[1], "LEAST_COSINE", 0.98)
    assert proven(sweep, "activated.0040", target="rv1103b.i8").name == "CUT"


@pytest.mark.parametrize("damage", [lambda y: y * 1.06, lambda y: np.roll(y, 1, -1)])
def test_errors_of_joined_layers_are_not_proven(sweep: Any, damage: Any) -> None:
    assert proven(sweep, "activated.0040", damage, "rv1103b.i8") is None


def _off_by_one_channel(y: Any) -> Any:
    moved = y.copy()
    moved[:, 0] = y[:, -1]
    return moved


@pytest.mark.parametrize("name", ["combined.0028", "arithmetic.0008", "chain.0010"])
@pytest.mark.parametrize("damage", [_off_by_one_channel, lambda y: y * 1.06, lambda y: np.roll(y, 1, -1)])
def test_errors_are_not_proven(sweep: Any, name: str, damage: Any) -> None:
    assert proven(sweep, name, damage) is None
