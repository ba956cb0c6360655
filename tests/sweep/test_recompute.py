"""Layers computed once more as the simulator computes them: that explains its bytes, and no errors."""

from __future__ import annotations

import io
import sys
import tarfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from rknnlite.formats import ModelFile
from tests.support.corpus import DATA, ROOT, open_cpu

CASE, TARGET = "deconv_depthwise.0012", "rk3588.i8"  # a transposed convolution and HardSwish
MODULES = ("cases", "graph", "judge", "kinds", "page", "recompute")


@pytest.fixture
def kinds(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module of the sweep, which is no package."""
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "sweep"))
    before = dict(sys.modules)
    for name in MODULES:
        sys.modules.pop(name, None)
    import kinds

    yield kinds
    for name in set(sys.modules) - set(before):
        if getattr(sys.modules[name], "__file__", None) and "tools/sweep" in str(sys.modules[name].__file__):
            del sys.modules[name]
    sys.modules.update({name: before[name] for name in MODULES if name in before})


def recomputed(kinds: Any, damage: Any) -> Any:
    with tarfile.open(DATA / "proofs" / f"{CASE}.tar.xz") as tar:
        members = {info.name: tar.extractfile(info).read() for info in tar}  # type: ignore[union-attr]
    wanted = np.load(io.BytesIO(members[f"{TARGET}.out0.npy"]))
    with open_cpu(ModelFile(members[f"{TARGET}.rknn"])) as context:
        found = context.infer([np.load(io.BytesIO(members["in0.npy"]))])[0]
        node = kinds._single(context._shapes.current.plan.graph)
        return (found == wanted).mean(), kinds.recompute(
            context, node, damage(wanted), kinds.CASES[CASE].record()[0]
        )


def test_the_rounding_that_the_file_does_not_have_explains_all_bytes(kinds: Any) -> None:
    ours, again = recomputed(kinds, lambda y: y)
    assert ours < 0.9
    assert again.share > 0.99
    assert kinds.Way.STORED in again.ways


@pytest.mark.parametrize("damage", [lambda y: y * 1.03, lambda y: np.roll(y, 1, 1)])
def test_an_error_is_not_explained(kinds: Any, damage: Any) -> None:
    assert recomputed(kinds, damage)[1].share < 0.9
